package main

// latencyMistakes are about how long messages take from publish to FIN.
func latencyMistakes() []mistake {
	return []mistake{
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
