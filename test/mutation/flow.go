package main

// flowMistakes concern the reported lag of channels.
func flowMistakes() []mistake {
	tests := []string{"./pkg/flow"}
	return []mistake{
		{
			name: "flow: what comes in does not count when a channel drains", file: "pkg/flow/meter.go",
			old: "net := r.Out - r.In", with: "net := r.Out", tests: tests, run: "DrainsIn",
		},
		{
			name: "flow: a rate is over all samples and not over its window", file: "pkg/flow/meter.go",
			old: "if s.at.After(edge) || !next.at.After(edge) {", with: "if true {", tests: tests, run: "Rates",
		},
		{
			name: "flow: samples of the long window are as close as those of the short one", file: "pkg/flow/meter.go",
			old: "if s.at.Sub(r.long[len(r.long)-1].at) >= longEvery {", with: "if true {", tests: tests, run: "Rates",
		},
		{
			name: "flow: a channel in which nothing waits is stalled", file: "pkg/flow/meter.go",
			old: "if t.Out != m.last.out || !t.Waiting {", with: "if t.Out != m.last.out {", tests: tests, run: "Stalled",
		},
		{
			name: "flow: a channel that shrinks by now grows", file: "pkg/flow/judge.go",
			old: "r.In > r.Out && ", with: "", tests: tests, run: "Grows",
		},
		{
			name: "finish: a message that a consumer has is left to it", file: "pkg/channel/finishany.go",
			old: "if s.t.slots[slot].place == held {", with: "if s.t.slots[slot].place == held || s.t.slots[slot].place == inFlight {",
			tests: []string{"./pkg/channel"}, run: "FinishAny",
		},
		{
			name: "finish: what an ordered channel's consumer is finishing is taken away", file: "pkg/channel/finishany.go",
			old: "if s.t.slots[slot].place == held {", with: "if false {", tests: []string{"./pkg/channel"}, run: "FinishAny",
		},
		{
			name: "flow: the sums of a cluster leave rates out", file: "pkg/stats/merge.go",
			old: "c.Rates.Add(d.Rates)", with: "", tests: []string{"./pkg/stats", "./pkg/broker"}, run: "RatesAndStalls",
		},
	}
}
