package main

// restartMistakes are about what a node with many topics does when it starts, and when
// they are made.
func restartMistakes() []mistake {
	vfs, broker := []string{"./pkg/vfs"}, []string{"./pkg/broker"}
	return []mistake{
		{
			name: "restarts: probes read the metadata from disk each time", file: "pkg/broker/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "true || o.disk.LastIndex", tests: broker, run: "Outlook",
		},
		{
			name: "restarts: what has grown is not read again", file: "pkg/broker/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "o.disk == nil || false && o.disk.LastIndex", tests: broker, run: "Outlook",
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
	}
}
