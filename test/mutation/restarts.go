package main

// restartMistakes are about what a node with many topics does when it starts, and when
// they are made and used.
func restartMistakes() []mistake {
	vfs, log, operate := []string{"./pkg/vfs"}, []string{"./pkg/commitlog"}, []string{"./pkg/operate"}
	return []mistake{
		{
			name: "restarts: probes read the metadata from disk each time", file: "pkg/operate/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "true || o.disk.LastIndex", tests: operate, run: "Outlook",
		},
		{
			name: "restarts: what has grown is not read again", file: "pkg/operate/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "o.disk == nil || false && o.disk.LastIndex", tests: operate, run: "Outlook",
		},
		{
			name: "restarts: names are synced as data", file: "pkg/vfs/syncs.go",
			old: "nameSync = syncKind{aioSync,", with: "nameSync = syncKind{aioDataSync,", tests: vfs, run: "Names",
		},
		{
			name: "restarts: who asks while a directory is synced counts as covered", file: "pkg/vfs/rounds.go",
			old: "\t\tq.next = nil", with: "\t\t_ = q.next", tests: vfs, run: "Rounds",
		},
		{
			name: "restarts: a channel that does not change is stored", file: "pkg/topic/channel.go",
			old: "\tif same {\n", with: "\tif false && same {\n", tests: []string{"./pkg/topic"}, run: "Configured",
		},
		{
			name: "tails: each log takes what it may have alone", file: "pkg/commitlog/tail.go",
			old: "t.shared.part(t.limit)", with: "t.limit", tests: log, run: "Tail",
		},
		{
			name: "tails: a log that rests keeps its part", file: "pkg/commitlog/tail.go",
			old: "\t\tt.shared.end()", with: "\t\t_ = t.shared", tests: log, run: "Tail",
		},
		{
			name: "tails: a log takes a part with each batch", file: "pkg/commitlog/tail.go",
			old: "if t.bytes == 0 {\n\t\tt.shared.begin", with: "if true {\n\t\tt.shared.begin", tests: log, run: "Tail",
		},
		{
			name: "tails: what a load was kept for stays until the next", file: "cmd/brokerd/heap.go",
			old: "c.periods != givenBackAfter &&", with: "", tests: []string{"./cmd/brokerd"}, run: "Rests",
		},
	}
}
