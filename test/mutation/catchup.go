package main

// catchUpMistakes are about how fast replicas that are not in sync are copied.
func catchUpMistakes() []mistake {
	const file = "pkg/coord/replication/catchup.go"
	return []mistake{
		{
			name: "catch-up: the rate does not fall when publishes take longer", file: file,
			old: "case loaded > 2*rested+commitNoise:\n\t\t\tp.rate *= 0.7", with: "case loaded > 2*rested+commitNoise:\n\t\t\tp.rate *= 1.0",
			tests: replicationTests, run: "TestCatchUp",
		},
		{
			name: "catch-up: a rest that is too short to show anything counts", file: file,
			old: "case ninth(p.loaded) > restFor:", with: "case false:",
			tests: replicationTests, run: "TestCatchUp",
		},
		{
			name: "catch-up: a rest counts in which copies are on their way", file: file,
			old: " && p.open == 0 && !since.Before(p.quiet):", with: ":",
			tests: replicationTests, run: "TestCatchUp",
		},
		{
			name: "catch-up: the rate falls below what is published", file: file,
			old: "lowest := minCatchUpRate + liveShare*float64(p.live)/took.Seconds()", with: "lowest := float64(minCatchUpRate); _ = took",
			tests: replicationTests, run: "TestCatchUp",
		},
		{
			name: "catch-up: what is copied is not counted", file: file,
			old: "\tc.pace.credit -= float64(bytes)\n", with: "",
			tests: replicationTests, run: "TestOutOfSyncReplicaIsSentAtTheRate|TestCatchUp",
		},
		{
			name: "catch-up: a replicator is not woken when its wait is over", file: file,
			old: "c.timer.Reset(wait)", with: "_ = wait",
			tests: replicationTests, run: "TestOutOfSyncReplicaIsSentAtTheRate",
		},
		{
			name: "catch-up: a replica that is not in sync does not wait", file: "pkg/coord/update.go",
			old: "p.Window, p.CatchUp = o.Sizes.Chunk, true", with: "p.Window = o.Sizes.Chunk",
			tests: []string{"./pkg/coord"}, run: "TestOutOfSyncReplicaIsCopiedAtTheRate",
		},
	}
}
