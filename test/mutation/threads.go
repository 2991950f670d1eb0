package main

const appenderFile = "pkg/coord/appender.go"

// threadMistakes are about publishes that are appended and answered without another thread.
func threadMistakes() []mistake {
	return []mistake{
		{
			name: "threads: a caller appends what arrived meanwhile, too", file: appenderFile,
			old: "\tcase handOver:\n\t\ta.running.Add(1)\n\t\ta.goOn()\n\t\tt.mu.Unlock()\n\t\treturn nil\n", with: "",
			tests: []string{"./pkg/coord"}, run: "Caller",
		},
		{
			name: "a publish that waits for a round is not refused in time", file: "pkg/coord/update.go",
			old: "g := t.forming; g != nil && now.Sub", with: "g := t.forming; g != nil && (late || !t.appender.runs) && now.Sub",
			tests: []string{"./pkg/coord"}, run: "InTime",
		},
		{
			name: "a publish to a partition without other replicas waits for ever", file: "pkg/host/terms.go",
			old: "			coord.Expire(lp.Term, now)\n", with: "			_ = now\n",
			tests: []string{"./pkg/broker"}, run: "WhileTheDiskHangs",
		},
		{
			name: "a publish that is being written is not answered in time", file: "pkg/coord/backlog.go",
			old: "if g.err == nil && g.expired {", with: "if g.err == nil && g.expired && g.written {",
			tests: []string{"./pkg/coord"}, run: "InTime",
		},
		{
			name: "an offset that was told of one message is given to another", file: "pkg/coord/term.go",
			old: "if g.told && t.over == nil && !revoked", with: "if false && !revoked",
			tests: []string{"./pkg/coord"}, run: "IsRepeated",
		},
		{
			name: "threads: what arrived while a caller appended is not appended", file: appenderFile,
			old: "\t\ta.running.Add(1)\n\t\ta.goOn()\n\t\tt.mu.Unlock()\n\t\treturn nil\n", with: "\t\tt.mu.Unlock()\n\t\treturn nil\n",
			tests: []string{"./pkg/coord"}, run: "Caller",
		},
		{
			name: "threads: a term ends while a caller is to append", file: appenderFile,
			old: "\t\tinline(a.here)\n", with: "\t\tinline(func() { a.running.Add(1); a.here() })\n\t\ta.running.Done()\n",
			tests: []string{"./pkg/coord"}, run: "Caller",
		},
		{
			name: "threads: a publish with a dedup id is appended elsewhere", file: "pkg/once/keeper.go",
			old: "Done: e.complete, Inline: o.Inline}", with: "Done: e.complete}",
			tests: []string{"./pkg/broker"}, run: "TestPublisherAppendsItself",
		},
		{
			name: "threads: a reader appends while another command waits", file: "pkg/server/publish.go",
			old: "p.reader.Buffered() == 0 && ", with: "",
			tests: []string{"./pkg/server"}, run: "TestReaderAppendsOnlyForWaitingClient",
		},
		{
			name: "threads: a reader appends while an earlier publish is under way", file: "pkg/server/publish.go",
			old: " && p.link.queue.single()", with: "",
			tests: []string{"./pkg/server"}, run: "TestReaderAppendsOnlyForWaitingClient",
		},
		{
			name: "threads: the reader of a consumer appends", file: "pkg/server/publish.go",
			old: "!p.subscribed && ", with: "",
			tests: []string{"./pkg/server"}, run: "TestReaderAppendsOnlyForWaitingClient",
		},
	}
}

// directMistakes are about answers that the writer does not write.
func directMistakes() []mistake {
	return []mistake{
		{
			name: "threads: an answer overtakes what the writer has to write", file: "pkg/server/direct.go",
			old: " && len(w.buf) == 0", with: "",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: answers that could be gathered are written one by one", file: "pkg/server/answers.go",
			old: "gathered := a.link, a.more", with: "gathered := a.link, false",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: a publish does not know of the commands behind it", file: "pkg/server/publish.go",
			old: "a.more = p.reader.Buffered() > 0", with: "a.more = false",
			tests: []string{"./pkg/server"}, run: "TestAnswersToPipelinedPublishesAreBatched",
		},
		{
			name: "threads: an answer goes around the compressor", file: "pkg/server/direct.go",
			old: "w.flush == nil && ", with: "",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: an answer goes around TLS", file: "pkg/server/direct.go",
			old: " && w.out == w.link.conn", with: "",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: an answer goes out before an earlier one", file: "pkg/server/answers.go",
			old: "if q.n != 1 || q.full {", with: "if q.n == 0 {",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: what the socket did not take is lost", file: "pkg/server/direct.go",
			old: "w.buf[d.taken:]...)", with: "w.buf[len(w.buf):]...)",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: an answer is written while the writer writes", file: "pkg/server/writer.go",
			old: "\tw.mu.Lock() // and forever, once it has ended\n", with: "\tw.mu.Lock()\n\tdefer w.mu.Unlock()\n",
			tests: []string{"./pkg/server"}, run: "Writer|Directly",
		},
		{
			name: "threads: a message is read from the disk where an answer was read", file: "pkg/server/direct.go",
			old: " || !w.sub.AtHand() {", with: " {",
			tests: []string{"./pkg/server"}, run: "TestWriterDeliversOtherwise",
		},
		{
			name: "threads: a consumer does not wait behind what was written for it", file: "pkg/server/direct.go",
			old: "return d.write(now) && w.deliver(now) == 0 && d.idle()", with: "return d.write(now)",
			tests: []string{"./pkg/server"}, run: "TestNextMessageIsDeliveredDirectly|TestSingleAnswerIsWrittenDirectly|TwoMessages",
		},
		{
			name: "threads: an answer never wakes the writer of a consumer without room", file: "pkg/server/session.go",
			old: "if !s.sub.Waits() {\n\t\t\ts.poke()\n\t\t}\n", with: "",
			tests: []string{"./pkg/server"}, run: "TestAnswerWakesWriterOnlyForFullConsumer",
		},
	}
}
