package main

// heapMistakes concern the heap of the process.
func heapMistakes() []mistake {
	return []mistake{
		{
			name: "memory that was returned moves into huge pages", file: "internal/hugepage/hugepage.go",
			old: "case used < n:", with: "case used < n-1:",
			tests: []string{"./internal/hugepage"}, run: "TestFull",
		},
		{
			name: "an idle process moves memory into huge pages", file: "cmd/brokerd/heap.go",
			old: "\tc.periods++\n", with: "\tc.periods++\n\tc.enlarge()\n",
			tests: []string{"./cmd/brokerd"}, run: "TestBusyProcess",
		},
	}
}

// memoryMistakes concern the budget for the memory that clients use.
func memoryMistakes() []mistake {
	return []mistake{
		{
			name: "big shares take the whole budget", file: "pkg/limit/memory.go",
			old: "const bulkEighths = 6", with: "const bulkEighths = 8",
			tests: []string{"./pkg/limit"}, run: "TestLargeRequestsLeaveAQuarterToSmallOnes",
		},
		{
			name: "a refused take leaves its place in the line", file: "pkg/limit/memory.go",
			old: "m.grantLocked() // the following claims may be smaller\n\t\t\treturn failure.NoMemory", with: "return nil",
			tests: []string{"./pkg/limit"}, run: "TestTakeIsRefused",
		},
		{
			name: "the list of a batch's messages costs nothing", file: "pkg/server/publish.go",
			old: "p.memory.Take(n * messageBytes)", with: "p.memory.Take(0)",
			tests: []string{"./pkg/server"}, run: "TestEachMessageOfMPUBIsCharged",
		},
		{
			name: "a message that is delivered costs nothing", file: "pkg/server/memory.go",
			old: "cost := max(nsq.BufferCap(size)-freeOutput, 0)", with: "cost := max(size-1<<40, 0)",
			tests: []string{"./pkg/server"}, run: "TestDeliveredMessagesAreCharged",
		},
		{
			name: "a message of an ordinary size waits for memory", file: "pkg/server/writer.go",
			old: "nsq.BufferCap(size) > smallOutput", with: "nsq.BufferCap(size) > 0",
			tests: []string{"./pkg/server"}, run: "TestLargeMessageWaits",
		},
		{
			name: "an ephemeral topic is not bounded at append", file: "pkg/quota/memory.go",
			old: "if stored+int64(n) > 2*e.most {", with: "if stored+int64(n) > 200*e.most {",
			tests: []string{"./pkg/quota"},
		},
		{
			name: "a peek costs nothing", file: "pkg/admin/v1/messages.go",
			old: "share.Reserve(r.Context(), peekGrowth*(peekBytes+v.publishing.Limits.MaxMessage))", with: "share.Reserve(r.Context(), 0)",
			tests: []string{"./pkg/admin"}, run: "TestListsAndPeeks",
		},
		{
			name: "what is held to be quicker stays when a request waits", file: "pkg/limit/memory.go",
			old: "m.grantLocked() // memory may have been returned since\n\tm.mu.Unlock()\n\tm.reclaim()", with: "m.grantLocked()\n\tm.mu.Unlock()",
			tests: []string{"./pkg/limit"}, run: "TestCacheMemoryIsReclaimedFirst",
		},
		{
			name: "what was cut off is read from the cache", file: "pkg/commitlog/cache.go",
			old: "if s == nil || s.truncations == truncations {", with: "if s == nil || truncations < 1<<40 {",
			tests: []string{"./pkg/commitlog"}, run: "TestTruncatedDataIsNotReadFromCache",
		},
		{
			name: "the cache keeps what retention drops", file: "pkg/commitlog/retain.go",
			old: "\tl.opts.Cache.dropLog(l, start)\n", with: "",
			tests: []string{"./pkg/commitlog"}, run: "TestRetentionDropsCachedPieces",
		},
		{
			name: "the cache keeps what is not used", file: "pkg/commitlog/cache.go",
			old: "if p.used+1 < c.round {", with: "if p.used+1 < c.round-1<<20 {",
			tests: []string{"./pkg/commitlog"}, run: "TestCacheReleasesMemory",
		},
		{
			name: "the cache goes on taking memory while a request waits", file: "pkg/commitlog/cache.go",
			old: "memory.OnWait(c.Drop)", with: "memory.OnWait(func() {})",
			tests: []string{"./pkg/commitlog"}, run: "TestCacheReleasesMemory",
		},
		{
			name: "a jump is trusted without a checksum", file: "pkg/commitlog/cache.go",
			old: "b, err := Decode(raw)\n\t\tif err != nil || b.First() != p.end {", with: "n, err := BatchSize(raw)\n\t\tif err != nil {\n\t\t\treturn nil, false\n\t\t}\n\t\tb := Batch{raw: raw[:n]}\n\t\tif b.First() != p.end {",
			tests: []string{"./pkg/commitlog"}, run: "TestDamageIsFound",
		},
	}
}

// laggingMistakes are about the memory of consumers that lag.
func laggingMistakes() []mistake {
	return []mistake{
		{
			name: "a reader that rests keeps a large batch", file: "pkg/commitlog/reader.go",
			old: "\tif cap(r.scan.buf) > small {", with: "\tif cap(r.scan.buf) > 1<<40 {",
			tests: []string{"./pkg/commitlog"}, run: "TestIdleReaderHoldsNoLargeBatch",
		},
		{
			name: "a reader that rests keeps a large piece", file: "pkg/commitlog/reader.go",
			old: "r.piece != nil && r.piece.bytes > small {", with: "r.piece != nil && r.piece.bytes > 1<<40 {",
			tests: []string{"./pkg/commitlog"}, run: "TestIdleReaderHoldsNoLargeBatch",
		},
		{
			name: "a large batch is read without memory", file: "pkg/commitlog/scan.go",
			old: "if want > s.chunk && s.pay != nil {", with: "if want > 1<<40 && s.pay != nil {",
			tests: []string{"./pkg/commitlog"}, run: "TestLargeBatchWaits",
		},
		{
			name: "what waits for memory for a batch holds another", file: "pkg/commitlog/reader.go",
			old: "\tr.forLarge.Close()\n\treturn r.forLarge.Reserve", with: "\treturn r.forLarge.Reserve",
			tests: []string{"./pkg/commitlog"}, run: "TestLargeBatchWaits",
		},
		{
			name: "a batch that is larger than there may be memory is never read", file: "pkg/commitlog/reader.go",
			old: "r.forLarge.Reserve(context.Background(), min(n, r.forLarge.Most()))", with: "r.forLarge.Reserve(context.Background(), n)",
			tests: []string{"./pkg/commitlog"}, run: "TestBatchOverMemoryBudgetIsReadAlone",
		},
		{
			name: "as much is read ahead without memory as with", file: "pkg/commitlog/reader.go",
			old: "chunk: int64(r.atOnce())", with: "chunk: readAhead",
			tests: []string{"./pkg/commitlog"}, run: "TestWithoutMemoryReadAheadShrinks",
		},
		{
			name: "a large allocation goes beyond the limit before anything is collected", file: "pkg/limit/collect.go",
			old: "-idle+uint64(n) > ", with: "-idle > ",
			tests: []string{"./pkg/limit"}, run: "TestGarbageIsCollectedBeforeLargeAllocation",
		},
		{
			name: "a consumer keeps the batch of its last Take", file: "pkg/topic/consumer.go",
			old: "\t\t\tk.at.Rest()\n\t\t\tk.delivered.Add(uint64(sent))\n\t\t\treturn sent, err", with: "\t\t\tk.delivered.Add(uint64(sent))\n\t\t\treturn sent, err",
			tests: []string{"./pkg/topic"}, run: "TestConsumerHoldsNoLargeBatch",
		},
		{
			name: "a consumer that found no memory for a batch sleeps", file: "pkg/topic/consumer.go",
			old: "\t\t\tk.wake() // it has waited, and retries\n", with: "",
			tests: []string{"./pkg/topic"}, run: "TestConsumerRetriesWithoutBatchMemory",
		},
		{
			name: "a batch is taken up again that is another one", file: "pkg/reading/place.go",
			old: "b.First() == r.rested.first && b.Checksum() == r.rested.sum {", with: "true {",
			tests: []string{"./pkg/topic"}, run: "TestIdleConsumerMissesNothing",
		},
		{
			name: "a batch is taken up again where another one was left", file: "pkg/reading/place.go",
			old: "b.Resume(r.rested.next, r.rested.left), r.rested.next", with: "b.Resume(r.next, r.rested.left), r.next",
			tests: []string{"./pkg/topic"}, run: "TestConsumerReturnsToBatchByOffset",
		},
		{
			name: "a message is read for which there was no memory a moment ago", file: "pkg/server/writer.go",
			old: "\t\tmost = 0 // it only checks itself", with: "\t\t_ = most // it only checks itself",
			tests: []string{"./pkg/server"}, run: "TestLargeMessageWaits",
		},
	}
}

// recoveryMistakes concern what opening a log after a kill may omit.
func recoveryMistakes() []mistake {
	return []mistake{
		{
			name: "a short log counts as synced whatever its checkpoint says", file: "pkg/commitlog/recovery.go",
			old: "f.base < f.end && f.end <= a.note.durable", with: "f.base < f.end",
			tests: []string{"./pkg/commitlog"}, run: "TestDataLeftByKillIsSyncedBeforeItCountsAsDurable",
		},
		{
			name: "a torn tail stays behind a short log", file: "pkg/commitlog/analyse.go",
			old: "f.short = zero && len(f.damage) == 0", with: "f.short = len(f.damage) == 0",
			tests: []string{"./pkg/commitlog"}, run: "TestRecovery",
		},
		{
			name: "a log that was left short is closed without its index", file: "pkg/commitlog/log.go",
			old: "err = reopenPinnedLocked(l)\n\t}\n\tout, rolled", with: "err = nil\n\t}\n\tout, rolled",
			tests: []string{"./pkg/commitlog"}, run: "TestShortLogIsCompleted",
		},
	}
}

// stockMistakes concern the memory of messages that were fetched from other nodes.
func stockMistakes() []mistake {
	return []mistake{
		{
			name: "a large message has no more time than a small one", file: "pkg/server/writer.go",
			old: "timeout += min(time.Duration(len(data)/slowestReader)*time.Second, w.delivery)", with: "",
			tests: []string{"./pkg/server"}, run: "TestSlowReaderGetsLargeMessage",
		},
		{
			name: "what other nodes send for clients costs nothing", file: "pkg/relay/room.go",
			old: "charged = m.cost(bytes)", with: "charged = 0",
			tests: []string{"./pkg/relay"}, run: "TestRelaysKeepToTheMemoryBudget",
		},
		{
			name: "a small message of another node waits for memory", file: "pkg/relay/room.go",
			old: "case m.spare > 0 || m.wanted <= smallAnswer:", with: "case m.spare > 0:",
			tests: []string{"./pkg/relay"}, run: "TestReaderIsServedBesideClientsThatDoNotRead",
		},
		{
			name: "memory is short for ever", file: "pkg/relay/room.go",
			old: "\tm.share.Give(n)\n\tm.wanted = 0\n", with: "\tm.share.Give(n)\n",
			tests: []string{"./pkg/relay"}, run: "TestReaderIsServedBesideClientsThatDoNotRead",
		},
	}
}
