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
	}
}
