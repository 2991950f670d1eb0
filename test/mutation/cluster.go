package main

// clusterMistakes concern membership, addresses, and recovery after the loss of most members.
func clusterMistakes() []mistake {
	member, between := []string{"./pkg/cluster"}, []string{"./pkg/peer"}
	return []mistake{
		{
			name: "a Raft connection accepts any node that answers at the address", file: "pkg/cluster/node.go",
			old: "n.transport.DialRaft(ctx, peer.Node(to), address, timeout)", with: `n.transport.DialRaft(ctx, "", address, timeout)`,
			tests: member, run: "VoteCountsOnly",
		},
		{
			name: "a stranger without a cluster is taken", file: "pkg/peer/judge.go",
			old: `!h.Class.visits() && h.ClusterID == ""`, with: `h.Class.visits() && h.ClusterID == "" && h.Class != ClassForm && h.Class != ClassPing`,
			tests: between, run: "TestConnectionRules",
		},
		{
			name: "a stranger of the cluster's id takes part in the agreement", file: "pkg/cluster/callserver.go",
			old: "if _, known := s.Leader(); known {", with: "if _, known := s.Leader(); !known {",
			tests: member, run: "Strangers|TestNodeWithoutLeaderAcceptsItsCluster",
		},
		{
			name: "a proof of the other side's counts", file: "pkg/peer/secret.go",
			old: "io.WriteString(mac, string(by))", with: "io.WriteString(mac, string(by[:0]))",
			tests: between, run: "TestProofIsValidForOneConnectionAndSide",
		},
		{
			name: "any proof counts", file: "pkg/peer/secret.go",
			old: "if !proven(secrets, shown, dialerSide, dialer, own) {", with: "if proven(secrets, shown, acceptorSide, dialer, own) {",
			tests: between, run: "TestProofIsValidForOneConnectionAndSide",
		},
		{
			name: "strangers have the frames of members", file: "pkg/peer/options.go",
			old: "return min(maxVisitorFrame, o.MaxFrame)", with: "return max(maxVisitorFrame, o.MaxFrame)",
			tests: between, run: "FramesOfStrangers",
		},
		{
			name: "large frames do not share", file: "pkg/peer/memory.go",
			old: "m.used > 0 && m.used+n > m.max", with: "m.used < 0 && m.used+n > m.max",
			tests: between, run: "LargeFramesShare",
		},
		{
			name: "members that have all moved are not looked for", file: "pkg/cluster/formation/member.go",
			old: "n.locate(ctx, c, addresses)", with: "_ = n.locate",
			tests: member, run: "TestClusterFormsAfterAllAddressesChange",
		},
		{
			name: "a node does not ask whether its cluster was recovered without it", file: "pkg/cluster/superseded.go",
			old: "err != nil || !meta.Supersedes(hello.ClusterID, l.own)", with: "err != nil || !meta.Supersedes(hello.ClusterID, hello.ClusterID)",
			tests: member, run: "TestRecoveredNodeContinuesAndOthersJoinEmpty|TestAbandonedClusterStaysSeparate",
		},
		{
			name: "the survivor is in sync where it was not", file: "pkg/meta/recovery.go",
			old: "if holds == HoldsAll {", with: "if holds != HoldsNone {",
			tests: metadataTests, run: "OnlySurvivor",
		},
		{
			name: "nodes that are lost stay replicas of deleted topics", file: "pkg/meta/recovery.go",
			old: "slices.DeleteFunc(TrashOf(s).update(only), ", with: "slices.DeleteFunc(slices.Clone(s.trash), ",
			tests: metadataTests, run: "OnlySurvivor",
		},
		{
			name: "a node starts in the middle of a recovery", file: "pkg/cluster/node.go",
			old: "unfinished || err != nil {", with: "unfinished && err != nil {",
			tests: member, run: "TestInterruptedRecoveryIsRepeated",
		},
		{
			name: "the controller counts what it missed as silence", file: "pkg/cluster/controller/detector.go",
			old: "d.excuse(missed, now)", with: "_ = missed",
			tests: []string{"./pkg/cluster/controller"}, run: "StarvedController",
		},
	}
}

// transferMistakes concern leaderships that move although no node failed.
func transferMistakes() []mistake {
	return []mistake{
		{
			name: "a leader is deposed while it hands over", file: "pkg/cluster/transfer.go",
			old: "errors.Is(err, failure.Moving) ||", with: "errors.Is(err, failure.NotLeading) ||",
			tests: []string{"./pkg/cluster"}, run: "TestBrieflyRefusingLeaderIsNotDeposed",
		},
		{
			name: "a leader is deposed that has not applied a change", file: "pkg/cluster/transfer.go",
			old: "errors.Is(err, failure.StaleVersion) ||", with: "",
			tests: []string{"./pkg/cluster"}, run: "TestBrieflyRefusingLeaderIsNotDeposed",
		},
		{
			name: "a leader is asked for ever", file: "pkg/cluster/transfer.go",
			old: "	return now.Sub(t.first) >= leaderTransferGiveUp\n", with: "	return now.Sub(t.first) < 0\n",
			tests: []string{"./pkg/cluster"}, run: "IsNotAskedForEver",
		},
		{
			name: "the partitions of a leader that does not answer wait for each other", file: "pkg/cluster/transfer.go",
			old: "silent = append(silent, e)", with: "_ = e",
			tests: []string{"./pkg/cluster"}, run: "IsNotAskedForEver",
		},
		{
			name: "a leader denies an election that it has not applied", file: "pkg/host/handover.go",
			old: "	d.awaitElection(ctx, a)\n", with: "	_ = d.awaitElection\n",
			tests: []string{"./pkg/broker"}, run: "TestLeaderTransfersOnceItsElectionIsApplied",
		},
		{
			name: "what an operator moves goes back at once", file: "pkg/cluster/controller/core.go",
			old: `p.Leader != "" && p.Leader != p.Replicas[0]`, with: `p.Leader != "" && p.Leader == p.Replicas[0]`,
			tests: []string{"./pkg/cluster/controller"}, run: "Histories",
		},
	}
}
