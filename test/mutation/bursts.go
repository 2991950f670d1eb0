package main

// burstMistakes concern connections that send many commands at once.
func burstMistakes() []mistake {
	return []mistake{
		{
			name: "bursts: many bursts at once take none", file: "pkg/limit/turns.go",
			old: "<= 2*cap(t.places)", with: "<= 20*cap(t.places)",
			tests: []string{"./pkg/limit"}, run: "Burst",
		},
		{
			name: "bursts: a burst does not end with its connection's next read", file: "pkg/server/conn.go",
			old: "\t\tc.executed()\n", with: "",
			tests: []string{"./pkg/server"}, run: "Burst",
		},
		{
			name: "bursts: publishes queue up behind what goes to this node's own term", file: "pkg/publish/queue.go",
			old: "for !o.gone && o.target == s.Self", with: "for !o.gone && o.target == \"\"",
			tests: []string{"./pkg/publish"}, run: "TestPublishWaitsForQueuedPublishesToThisNode",
		},
	}
}
