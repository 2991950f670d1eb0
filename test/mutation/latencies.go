package main

// latencyMistakes concern the time from publish to FIN.
func latencyMistakes() []mistake {
	return []mistake{
		{
			name: "the sample of processing follows a message that another consumer has", file: "pkg/processing/probe.go",
			old: "now.UnixNano()-p.begun.Load() < int64(timeout)", with: "true",
			tests: []string{"./pkg/processing"}, run: "TestProbeFollowsOneMessage",
		},
		{
			name: "the sample of processing counts a message again and again", file: "pkg/processing/probe.go",
			old: "return max(took, 0), attempts, p.offset.CompareAndSwap(uint64(o)+1, 0)", with: "return max(took, 0), attempts, true",
			tests: []string{"./pkg/processing"}, run: "TestProbeFollowsOneMessage",
		},
		{
			name: "changes of the in-sync set are not reported to the observer", file: "pkg/host/host.go",
			old: "newProposer(o.proposeObserved)", with: "newProposer(o.Meta.Propose)",
			tests: []string{"./pkg/broker"}, run: "TestChangesOfTheHost",
		},
		{
			name: "publishes refused at once are not reported to the observer", file: "pkg/publish/router.go",
			old: "\t\tr.o.Observer.ObservePublish(0, err) // refused at once: nothing behind here has seen it\n", with: "",
			tests: []string{"./pkg/broker"}, run: "TestRefusedPublishes",
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
			old: "now.Sub(times.Base)-k.ch.p.o.Ages.Age(ageOf(k.at.Batch()), now))", with: "now.Sub(times.Base))",
			tests: []string{"./pkg/broker"}, run: "TestLatenciesCoverTheCluster",
		},
		{
			name: "a requeue counts as the end of a message", file: "pkg/topic/consumer.go",
			old: "\tk.requeued.Add(1)\n", with: "\tk.requeued.Add(1)\n\tk.processed(o, now)\n",
			tests: []string{"./pkg/broker"}, run: "TestLatenciesCoverTheCluster",
		},
		{
			name: "the FIN of an ordered channel has no latency", file: "pkg/topic/finishing.go",
			old: "\t\tx.By.processed(x.Offset, now)\n", with: "\t\t_ = now\n", tests: []string{"./pkg/broker"}, run: "TestLatenciesCoverTheCluster",
		},
		{
			name: "another node's latencies are left out", file: "pkg/stats/merge.go",
			old: "latency.Merged(c.Latency, d.Latency)", with: "latency.Merged(c.Latency, nil)", tests: []string{"./pkg/broker"}, run: "TestLatenciesCoverTheCluster",
		},
		{
			name: "latencies are kept for ever", file: "internal/latency/latency.go",
			old: " && turn-w.turns[i] < parts {", with: " && turn-w.turns[i] >= 0 {", tests: []string{"./pkg/broker"}, run: "TestLatenciesCoverTheCluster",
		},
		{
			name: "publishes of lost messages are kept", file: "pkg/processing/processing.go",
			old: "\tp.at = kept\n", with: "\t_ = kept\n", tests: []string{"./pkg/topic"}, run: "TestPublishes",
		},
	}
}

// traceMistakes are about the life of a message.
func traceMistakes() []mistake {
	tests := []string{"./pkg/trace"}
	return []mistake{
		{
			name: "trace: damage loses the frames behind it", file: "pkg/trace/frame.go",
			old: "\t\t\tif next < 0 {\n", with: "\t\t\tif true {\n", tests: tests, run: "TestFramesReadBack",
		},
		{
			name: "trace: an event is read that no writer writes", file: "pkg/trace/frame.go",
			old: "if partsOf(&e) != parts {", with: "if false {", tests: tests, run: "FuzzScan",
		},
		{
			name: "trace: events of other messages are stored as of consecutive ones", file: "pkg/trace/event.go",
			old: "next.Message.ID != e.Message.ID+seq.MessageID(e.count())", with: "next.Message.ID < e.Message.ID",
			tests: tests, run: "TestConsecutive",
		},
		{
			name: "trace: a query changes what is stored", file: "pkg/trace/frame.go",
			old: "names: maps.Clone(f.names)", with: "names: func() map[string]uint64 { _ = maps.Clone(f.names); return f.names }()", tests: tests, run: "TestConsecutive",
		},
		{
			name: "trace: a wrong checksum is believed", file: "pkg/trace/frame.go",
			old: "!= le.Uint32(data[4:]) {", with: "!= le.Uint32(data[4:]) && false {", tests: tests, run: "TestFramesReadBack",
		},
		{
			name: "trace: a store grows without a bound", file: "pkg/trace/store.go",
			old: "len(s.segments) < 2 ||", with: "true ||", tests: tests, run: "TestOldestEventsAreDropped|TestManyStarts",
		},
		{
			name: "trace: frames wait for a slow disk without a bound", file: "pkg/trace/store.go",
			old: "len(s.waiting) > maxWaiting &&", with: "false &&", tests: tests, run: "TestStalledDiskBoundsMemory",
		},
		{
			name: "trace: a topic shows the events of another that had its name", file: "pkg/trace/event.go",
			old: "e.Message.Incarnation == m.Incarnation && ", with: "", tests: tests, run: "TestEventsAreSorted",
		},
		{
			name: "trace: a copy is no part of its origin's life", file: "pkg/trace/find.go",
			old: "\tg.close()\n", with: "", tests: tests, run: "TestCopiesFollow",
		},
		{
			name: "trace: the copy of a traced message is forgotten", file: "pkg/trace/partition.go",
			old: "\t\t\tp.follow(e.Message.ID)\n", with: "", tests: tests, run: "TestCopiesFollow",
		},
		{
			name: "trace: all channels are traced where one is named", file: "pkg/trace/partition.go",
			old: "x.Channel != \"\" && !p.rule.HasChannel(x.Channel) || ", with: "", tests: tests, run: "TestOnlyNamedChannelsAreTraced",
		},
		{
			name: "trace: what was noted last is lost at the end", file: "pkg/trace/store.go",
			old: "\t\ts.flush(true)\n\t\ts.closeFile()\n", with: "\t\ts.closeFile()\n", tests: tests, run: "TestLastEventsAreStoredAtClose",
		},
		{
			name: "trace: a process appends to what it finds", file: "pkg/trace/store.go",
			old: "next = s.segments[n-1].number + 1", with: "next = s.segments[n-1].number", tests: tests, run: "TestEventsOutlive",
		},
	}
}
