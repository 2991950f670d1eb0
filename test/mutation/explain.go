package main

// explainMistakes concern the causes reported for a channel without progress.
func explainMistakes() []mistake {
	tests := []string{"./pkg/admin/v1", "./pkg/admin"}
	return []mistake{
		{
			name: "explain: a channel counts as moving whatever it does", file: "pkg/admin/v1/explain.go",
			old: "now.FinishedTotal > before.FinishedTotal ||", with: "now.FinishedTotal >= before.FinishedTotal ||", tests: tests, run: "Explained|TestChannelIsWatchedUntilItMoves",
		},
		{
			name: "explain: what moves is observed to the end", file: "pkg/admin/v1/explain.go",
			old: "if unfinished(&now) == 0 || now.FinishedTotal > c.FinishedTotal || now.FilteredTotal > c.FilteredTotal {", with: "if false {", tests: tests, run: "Explained|TestChannelIsWatchedUntilItMoves",
		},
		{
			name: "explain: a deferred message blocks its channel in order without a word", file: "pkg/admin/v1/explain.go",
			old: "if d.now.Ordered && d.now.Depth > 0 && len(d.found) == 0 {", with: "if false {", tests: tests, run: "Explained",
		},
		{
			name: "explain: a paused topic is named though nothing waits", file: "pkg/admin/v1/explain.go",
			old: "return t.Paused && t.Depth > 0", with: "return t.Paused", tests: tests, run: "Explained|TestChannelIsWatchedUntilItMoves",
		},
		{
			name: "explain: a consumer that backs off is not told from one without RDY", file: "pkg/admin/v1/explain.go",
			old: "case c.Ready == 0 && c.RequeuedTotal > 0:", with: "case false:", tests: tests, run: "Explained|TestChannelIsWatchedUntilItMoves",
		},
		{
			name: "health: a follower that slows publishes down is not named", file: "pkg/host/health.go",
			old: "stall.Follower, stall.Slow)", with: "stall.Follower)", tests: []string{"./pkg/host"}, run: "Stalls",
		},
		{
			name: "peek: the state does not choose if there is a filter", file: "pkg/operate/peek.go",
			old: "return peekState(c, s) == r.State && (chosen == nil || chosen(s))", with: "return chosen == nil && peekState(c, s) == r.State || chosen != nil && chosen(s)", tests: []string{"./pkg/broker"}, run: "TestPeekChoosesByState",
		},
		{
			name: "log level: a reload does not end a change", file: "internal/node/process.go",
			old: "\tl.end()\n\tl.configured = configured\n", with: "\tl.configured = configured\n", tests: []string{"./internal/node"}, run: "TestLogLevelReturnsToTheConfiguredOne",
		},
	}
}
