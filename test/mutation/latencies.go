package main

// latencyMistakes are about how long messages take from publish to FIN.
func latencyMistakes() []mistake {
	return []mistake{
		{
			name: "the sample of processing follows a message that somebody else has", file: "pkg/topic/probe.go",
			old: "now.UnixNano()-p.begun.Load() < int64(timeout)", with: "true",
			tests: []string{"./pkg/topic"}, run: "TestAProbeFollowsOneMessage",
		},
		{
			name: "the sample of processing counts a message again and again", file: "pkg/topic/probe.go",
			old: "return max(took, 0), attempts, p.offset.CompareAndSwap(uint64(o)+1, 0)", with: "return max(took, 0), attempts, true",
			tests: []string{"./pkg/topic"}, run: "TestAProbeFollowsOneMessage",
		},
		{
			name: "commits after a tag are taken for the tag's release", file: "internal/build/build.go",
			old: `case m[2] == "":`, with: "case true:",
			tests: []string{"./internal/build"},
		},
		{
			name: "an archive of another commit dates the build", file: "internal/build/build.go",
			old: `if o.Commit == "" || o.Commit == other.Commit {`, with: "if true {",
			tests: []string{"./internal/build"},
		},
		{
			name: "a message is as old as its last delivery", file: "pkg/topic/consumer.go",
			old: "now.Sub(times.Base)-k.ch.p.o.Ages.Age(ageOf(k.at.batch), now))", with: "now.Sub(times.Base))",
			tests: []string{"./pkg/broker"}, run: "TestLatencies",
		},
		{
			name: "a requeue counts as the end of a message", file: "pkg/topic/consumer.go",
			old: "\tk.requeued.Add(1)\n", with: "\tk.requeued.Add(1)\n\tk.processed(o, now)\n",
			tests: []string{"./pkg/broker"}, run: "TestLatencies",
		},
		{
			name: "the FIN of an ordered channel has no latency", file: "pkg/topic/consumer.go",
			old: "\t\tk.processed(o, time.Now())\n", with: "", tests: []string{"./pkg/broker"}, run: "TestLatencies",
		},
		{
			name: "another node's latencies are left out", file: "pkg/stats/merge.go",
			old: "latency.Merged(c.Latency, d.Latency)", with: "latency.Merged(c.Latency, nil)", tests: []string{"./pkg/broker"}, run: "TestLatencies",
		},
		{
			name: "latencies are kept for ever", file: "internal/latency/latency.go",
			old: " && turn-w.turns[i] < parts {", with: " && turn-w.turns[i] >= 0 {", tests: []string{"./pkg/broker"}, run: "TestLatencies",
		},
		{
			name: "publishes of lost messages are kept", file: "pkg/processing/processing.go",
			old: "\tp.at = kept\n", with: "\t_ = kept\n", tests: []string{"./pkg/topic"}, run: "TestPublishes",
		},
	}
}
