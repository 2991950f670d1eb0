package main

// answerMistakes concern the limits of long HTTP responses, and the meaning of errors.
func answerMistakes() []mistake {
	tests := []string{"./pkg/admin/web"}
	return append(failureMistakes(), []mistake{
		{
			name: "answers: a long one is forgotten at the next short one", file: "pkg/admin/web/answers.go",
			old: "max(int64(n), most-most/64)", with: "int64(n)+0*most", tests: tests, run: "Answer",
		},
		{
			name: "answers: a long one is not charged while it is written", file: "pkg/admin/web/answers.go",
			old: "share.Give(share.Held() - length)", with: "share.Close()", tests: tests, run: "Answer",
		},
		{
			name: "answers: the charge for a long one is not given back", file: "pkg/admin/web/answers.go",
			old: "return v, share.Close, nil", with: "return v, func() {}, nil", tests: tests, run: "Answer",
		},
		{
			name: "answers: a long one is made without a turn", file: "pkg/admin/web/answers.go",
			old: "defer a.Turns.AcquireFor(limit.PublishTurn)()", with: "_ = limit.PublishTurn", tests: tests, run: "Answer",
		},
		{
			name: "answers: one over the budget is refused for ever", file: "pkg/admin/web/answers.go",
			old: "min(answerGrowth*expected, share.Most())", with: "answerGrowth*expected", tests: tests, run: "Answer",
		},
		{
			name: "answers: those of NSQ's interface have no limits", file: "pkg/admin/server.go",
			old: "t := &nsqform.Router{Answers: answers}\n	nsqd", with: "t := &nsqform.Router{}\n	nsqd",
			tests: []string{"./pkg/admin"}, run: "TestLongAnswers",
		},
	}...)
}

// failureMistakes concern the meaning of errors for their receivers.
func failureMistakes() []mistake {
	return []mistake{
		{
			name: "server: what comes while a node stops is not answered", file: "pkg/server/server.go",
			old: "retire(c.link, EndShutdown, failure.ShuttingDown)", with: "c.stop(EndShutdown, failure.ShuttingDown)", tests: []string{"./pkg/server"}, run: "TestShutdown",
		},
		{
			name: "server: a node that stops delivers on", file: "pkg/server/conn.go",
			old: "\t\tc.retired()\n", with: "", tests: []string{"./pkg/server"}, run: "TestShutdown",
		},
		{
			name: "failure: a refused publish is read as uncertain", file: "pkg/failure/wire.go",
			old: "return NotWritable, fate.Refused", with: "return Uncertain, fate.Uncertain",
			tests: []string{"./pkg/failure", "./cmd/brokerctl"}, run: "TestFailedPublishKeepsItsFate|TestBenchReportsRefusals",
		},
		{
			name: "fields: a count of more than there is is believed", file: "internal/fields/fields.go",
			old: "if n > uint64(len(r.Rest)/size) {", with: "if false {",
			tests: []string{"./internal/fields"}, run: "TestFirstInvalidFieldIsReported",
		},
		{
			name: "fields: a number has two encodings", file: "internal/fields/fields.go",
			old: "case n > 1 && r.Rest[n-1] == 0:", with: "case false:", tests: []string{"./internal/fields"}, run: "TestFirstInvalidFieldIsReported",
		},
		{
			name: "failure: an error loses its kind between nodes", file: "pkg/forward/errors.go",
			old: "kind: failure.Numbered(remote.Code & maxNumber)", with: "kind: failure.Numbered(0)",
			tests: []string{"./pkg/forward"}, run: "KeepTextFateAndKind",
		},
		{
			name: "failure: a publish of an unknown outcome is reported under another code", file: "pkg/failure/kind.go",
			old: "return PublishUnknown", with: "return k", tests: []string{"./pkg/failure"}, run: "TestOutermostKindOfAnErrorCounts",
		},
		{
			name: "stats: a leader that does not lead yet is not named", file: "pkg/stats/merge.go",
			old: "!told[k] && leader", with: "!found && leader", tests: []string{"./pkg/stats"}, run: "TestSilentLeaderIsNamed",
		},
	}
}

// wakeMistakes are about which answers wake the writer of a connection.
func wakeMistakes() []mistake {
	tests := []string{"./pkg/server"}
	return []mistake{
		{
			name: "wakes: the answer that is next does not wake the writer", file: "pkg/server/answers.go",
			old: "awaited == nil || awaited == a", with: "awaited == nil", tests: tests, run: "TestNextAnswerWakesWriter",
		},
		{
			name: "wakes: a writer that waits for no answer sleeps on", file: "pkg/server/answers.go",
			old: "awaited == nil || awaited == a", with: "awaited == a", tests: tests, run: "TestNextAnswerWakesWriter",
		},
		{
			name: "wakes: an answer that comes before the writer sleeps is slept over", file: "pkg/server/answers.go",
			old: "first != nil && first.phase.Load() == phaseReady, mixed", with: "false, mixed", tests: tests, run: "TestNextAnswerWakesWriter",
		},
		{
			name: "wakes: the writer waits for an answer that was written in its place", file: "pkg/server/answers.go",
			old: "	q.awaited.Store(nil) // it may have been this one\n", with: "", tests: tests, run: "TestNextAnswerWakesWriter",
		},
	}
}
