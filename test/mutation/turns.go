package main

// turnMistakes concern turns of long computations.
func turnMistakes() []mistake {
	return []mistake{
		{
			name: "turns: one more has a turn than may", file: "pkg/limit/turns.go",
			old: "make(chan struct{}, places)", with: "make(chan struct{}, places+1)",
			tests: []string{"./pkg/limit"}, run: "TestTurnsAreBounded",
		},
		{
			name: "turns: one with a time limit does not end", file: "pkg/limit/turns.go",
			old: "time.AfterFunc(most,", with: "time.AfterFunc(1000*most,",
			tests: []string{"./pkg/limit"}, run: "TestTurnWithTimeLimitEnds",
		},
		{
			name: "turns: a long body is read without one", file: "pkg/server/conn.go",
			old: "return a.read >= freeOfTurns &&", with: "return a.read >= 1<<40 &&",
			tests: []string{"./pkg/server"}, run: "TestLongBodiesAreReadInTurns",
		},
		{
			name: "turns: one is held while input is waited for", file: "pkg/server/compress.go",
			old: "r.conn.taken = true", with: "r.conn.taken = false",
			tests: []string{"./pkg/server"}, run: "TestDecompressionIsDoneInTurns",
		},
		{
			name: "turns: many messages are listed without one", file: "pkg/server/publish.go",
			old: "\tturns.Acquire()\n\tdefer turns.Give()\n", with: "",
			tests: []string{"./pkg/server"}, run: "TestLongWorkIsDoneInTurns",
		},
		{
			name: "turns: many messages are published without one", file: "pkg/server/publish.go",
			old: "defer p.link.srv.opts.Turns.AcquireFor(limit.PublishTurn)()", with: "_ = limit.PublishTurn",
			tests: []string{"./pkg/server"}, run: "TestPublishReleasesItsTurn",
		},
		{
			name: "turns: many messages are listed without one over HTTP", file: "pkg/admin/nsqd/publish.go",
			old: "\tturns.Do(func() { messages, err = split(", with: "\tturns = nil\n\tturns.Do(func() { messages, err = split(",
			tests: []string{"./pkg/admin"}, run: "TestLongWorkIsDoneInTurns",
		},
		{
			name: "turns: one over HTTP is not passed on", file: "pkg/limit/turns.go",
			old: "if n%TurnMessages == 0 {", with: "if n < 0 {",
			tests: []string{"./pkg/limit"}, run: "TestTurnIsPassedAfterManyMessages",
		},
		{
			name: "turns: many messages are published without one over HTTP", file: "pkg/admin/web/publish.go",
			old: "s.Turns.For(len(req.Messages)).AcquireFor(limit.PublishTurn)", with: "s.Turns.For(0).AcquireFor(limit.PublishTurn)",
			tests: []string{"./pkg/admin"}, run: "TestPublishReleasesItsTurn",
		},
		{
			name: "turns: a long answer is encoded without one", file: "pkg/admin/v1/api.go",
			old: "a.turns.Do(func() { body", with: "(*limit.Turns)(nil).Do(func() { body",
			tests: []string{"./pkg/admin"}, run: "TestLongAnswerIsEncodedInTurns",
		},
		{
			name: "turns: much JSON is decoded without one", file: "pkg/admin/v1/messages.go",
			old: "\t\tturns = v.turnsFor(len(b.Bytes()))", with: "\t\tturns = v.turnsFor(0)",
			tests: []string{"./pkg/admin"}, run: "TestLongWorkIsDoneInTurns",
		},
	}
}
