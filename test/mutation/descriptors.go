package main

// descriptorMistakes are about files that share descriptors.
func descriptorMistakes() []mistake {
	return []mistake{
		{
			name: "one descriptor more is held than may be", file: "pkg/vfs/files.go",
			old: "int64(len(f.held)+f.opening) < f.most()", with: "int64(len(f.held)+f.opening) <= f.most()", tests: []string{"./pkg/vfs"}, run: "TestThereMayBeMoreFiles",
		},
		{
			name: "a file that is in use gives up its descriptor", file: "pkg/vfs/virtualfile.go",
			old: "return l.users == 0 && ", with: "return ", tests: []string{"./pkg/vfs"}, run: "TestFilesInUse",
		},
		{
			name: "a file gives up its descriptor before it is durable", file: "pkg/vfs/virtualfile.go",
			old: "if l.wrote > l.synced {", with: "if false {", tests: []string{"./pkg/vfs"}, run: "TestFileIsDurable",
		},
		{
			name: "a sync that began before a change makes that durable", file: "pkg/vfs/virtualfile.go",
			old: "l.synced = max(l.synced, wrote)", with: "l.synced = max(l.wrote, wrote)", tests: []string{"./pkg/vfs"}, run: "TestFileIsDurable",
		},
		{
			name: "the other handles of a file do not learn that it could not be made durable", file: "pkg/vfs/losses.go",
			old: "x.err == nil {\n			x.err = err", with: "x.err == nil {\n			_ = x", tests: []string{"./pkg/vfs"}, run: "TestFailedSyncIsReportedToEveryHandle|JournalKeeps",
		},
		{
			name: "a new file inherits what another one lost", file: "pkg/vfs/losses.go",
			old: "func(x *loss) { x.err = nil }", with: "func(*loss) {}", tests: []string{"./pkg/vfs"}, run: "TestFailedSyncIsReportedToEveryHandle",
		},
		{
			name: "a file that cannot be made durable is synced again", file: "pkg/vfs/virtualfile.go",
			old: " && !l.unsynced", with: "", tests: []string{"./pkg/vfs"}, run: "TestFileIsDurable",
		},
		{
			name: "a file is opened again that is another one", file: "pkg/vfs/virtualfile.go",
			old: "err == nil && !os.SameFile(info, l.info)", with: "err != nil && info != nil", tests: []string{"./pkg/vfs"}, run: "TestFileIsOpenedAgain",
		},
		{
			name: "connections get no descriptors of files", file: "pkg/vfs/files.go",
			old: "f.over() && f.giveUp()", with: "false", tests: []string{"./pkg/vfs"}, run: "TestConnectionsTake",
		},
		{
			name: "a connection that has ended keeps a descriptor from files", file: "cmd/brokerd/connlimits.go",
			old: "\tc.files.Elsewhere(-1)\n", with: "", tests: []string{"./cmd/brokerd"}, run: "TestConnectionsAndFiles",
		},
		{
			name: "no descriptor is given up for a directory", file: "pkg/vfs/files.go",
			old: "if f.spare != nil {\n\t\t\t_ = f.spare.Close()", with: "if false {\n\t\t\t_ = f.spare.Close()", tests: []string{"./pkg/vfs"}, run: "TestSpareDescriptorIsReopened",
		},
	}
}
