package main

// headlessMistakes concern log lines of a cluster without a metadata leader.
func headlessMistakes() []mistake {
	tests := []string{"./pkg/cluster"}
	return []mistake{
		{
			name: "headless: an ordinary election is logged", file: "pkg/cluster/headless.go",
			old: "if !headless(ctx, of, headlessFor) {", with: "if !headless(ctx, of, headlessFor-2*time.Millisecond) {", tests: tests, run: "TestMissingLeaderIsReportedOnce|TestElectionIsNotReported|TestLeaderDeathCausesElection",
		},
		{
			name: "headless: a leader that is back is not logged", file: "pkg/cluster/headless.go",
			old: "if leader, known := of.Leader(); known {\n\t\t\tlog", with: "if leader, known := of.Leader(); !known {\n\t\t\tlog", tests: tests, run: "TestMissingLeaderIsReportedOnce|TestElectionIsNotReported|TestLeaderDeathCausesElection",
		},
		{
			name: "headless: each election that fails is logged", file: "pkg/meta/raftstore/logger.go",
			old: "\"Election timeout reached\", ", with: "", tests: tests, run: "TestMissingLeaderIsReportedOnce|TestElectionIsNotReported|TestLeaderDeathCausesElection",
		},
		{
			name: "a node whose disk hangs says that it serves", file: "pkg/cluster/callserver.go",
			old: "c.handlers.Load() == nil || c.stalled.Load() {", with: "c.handlers.Load() == nil {", tests: []string{"./pkg/cluster"}, run: "StalledDisk",
		},
		{
			name: "a controller whose disk hangs stays", file: "pkg/cluster/callserver.go",
			old: "if silent >= timeout || silent >= timeout/2 && c.role.mayYield() {", with: "if false {",
			tests: []string{"./pkg/cluster"}, run: "StalledDisk",
		},
		{
			name: "the controller role goes in circles while all disks are slow", file: "pkg/cluster/callserver.go",
			old: "silent >= timeout/2 && c.role.mayYield()", with: "silent >= timeout/2",
			tests: []string{"./pkg/cluster"}, run: "AllDisksAreSlow",
		},
		{
			name: "replicas join without proof of what they hold", file: "pkg/meta/commands_partition.go",
			old: "if id != c.Joiner && !slices.Contains(p.ISR, id) {", with: "if false {", tests: metadataTests, run: "Scripts",
		},
		{
			name: "an overfull topic postpones the check of the disk", file: "pkg/host/disk.go",
			old: "time.Since(looked) < interval {", with: "time.Since(looked) >= 0 {", tests: []string{"./pkg/host"}, run: "Overfull",
		},
		{
			name: "a sync of the volume counts as a disk that hangs", file: "pkg/vfs/hook/watch.go",
			old: "op.Kind == vfs.OpRemove || op.Kind == vfs.OpSyncVolume {", with: "op.Kind == vfs.OpRemove {", tests: []string{"./pkg/stall"}, run: "Volume",
		},
	}
}
