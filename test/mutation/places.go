package main

// placeMistakes concern how syncs and writes delay other work.
func placeMistakes() []mistake {
	return []mistake{
		{
			name: "the journal's syncs take places", file: "pkg/redo/journal.go",
			old: "err = vfs.SyncAside(half)", with: "err = half.SyncData()", tests: []string{"./pkg/redo"},
		},
		{
			name: "syncs take all places", file: "pkg/vfs/syncs.go",
			old: "s.blocking.Add(1) <= s.most", with: "s.blocking.Add(1) <= s.most+1", tests: []string{"./pkg/vfs"},
		},
		{
			name: "a sync that the kernel failed counts as done", file: "pkg/vfs/aio_linux.go",
			old: "if r.done.result < 0 {", with: "if false {", tests: []string{"./pkg/vfs"},
		},
		{
			name: "a sync that the kernel does not take counts as done", file: "pkg/vfs/syncs.go",
			old: "\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn kind.block(f)\n", with: "\t\treturn err\n", tests: []string{"./pkg/vfs"},
		},
		{
			name: "each frame of a burst is written by itself", file: "pkg/peer/outbox.go",
			old: "now.Sub(o.wrote) >= burst", with: "now.Sub(o.wrote) >= 0", tests: []string{"./pkg/peer"}, run: "TestWriterWritesBursts",
		},
		{
			name: "the writer's own writes are no burst", file: "pkg/peer/outbox.go",
			old: "	o.wrote = o.now()\n", with: "", tests: []string{"./pkg/peer"}, run: "TestWriterWritesBursts",
		},
		{
			name: "a busy log is noted in every round", file: "pkg/host/retention.go",
			old: "	return recordAfterBytes\n", with: "	return 0\n", tests: []string{"./pkg/host"}, run: "TestBusyLogs",
		},
		{
			name: "a busy log is never noted", file: "pkg/commitlog/log.go",
			old: "l.noted.durablePos < least {", with: "l.noted.durablePos <= least {", tests: []string{"./pkg/commitlog"}, run: "TestCheckpointWaits",
		},
		{
			name: "a log fails for the lack of a descriptor", file: "pkg/vfs/files.go",
			old: " || OutOfFiles(err)\n", with: "\n", tests: []string{"./pkg/commitlog"}, run: "WithoutDescriptors",
		},
	}
}
