package main

// repairMistakes are mistakes about copies that were set aside or lost.
func repairMistakes() []mistake {
	return []mistake{
		{
			name: "OwnerIsChecked: a damaged name of the cluster is another cluster's", file: "pkg/datadir/owner.go",
			old: "case c.startedBefore():\n\t\tc.log.Error(", with: "case false:\n\t\tc.log.Error(",
			tests: []string{"./pkg/broker"}, run: "TestDamagedClusterIDRemovesNoTopic",
		},
		{
			name: "OwnerIsKnown: data of an unknown cluster is served", file: "pkg/datadir/owner.go",
			old: "return unknownCluster, nil", with: "return id, nil",
			tests: []string{"./pkg/broker"}, run: "DataOfAnUnknownCluster",
		},
		{
			name: "AsideWhileLonger: a set-aside copy that is longer goes", file: "pkg/host/aside.go",
			old: "live.End() < old.End || live.CommittedEnd() < old.CommittedEnd", with: "false",
			tests: []string{"./pkg/broker"}, run: "SetAside",
		},
		{
			name: "AsideIsNamed: the health is silent about a set-aside copy", file: "pkg/host/aside.go",
			old: "				if s.Waits {\n", with: "				if false {\n",
			tests: []string{"./pkg/broker"}, run: "SetAside",
		},
		{
			name: "AsideOfThePartition: any set-aside copy is discarded by its name", file: "pkg/host/aside.go",
			old: "if n != name || t == nil || ", with: "if t == nil || ",
			tests: []string{"./pkg/broker"}, run: "SetAside",
		},
		{
			name: "AsideOfADeletedTopic: a set-aside copy of an unknown topic goes", file: "pkg/host/aside.go",
			old: "in > meta.Incarnation(s.Index()) ||", with: "false ||",
			tests: []string{"./pkg/broker"}, run: "SetAside",
		},
		{
			name: "LostIsSaid: the health forgets a lost only replica with a restart", file: "pkg/host/replica.go",
			old: "hp.lost.Store(slices.Contains(names, datadir.MarkLost))", with: "hp.lost.Store(false)",
			tests: []string{"./pkg/broker"}, run: "LostOnlyReplica",
		},
		{
			name: "a leader without positions does not wait for replicas that are starting", file: "pkg/host/salvage.go",
			old:   "return !slices.ContainsFunc(v.ISR, func(id meta.NodeID) bool { return id != q.o.Self })",
			with:  "return !slices.ContainsFunc(v.Replicas, func(r coord.ReplicaView) bool { return r.Node != q.o.Self && !r.Down })",
			tests: []string{"./pkg/broker"}, run: "TestLeaderWithoutPositions",
		},
		{
			name: "a leader without positions asks replicas that are down to lead", file: "pkg/host/salvage.go",
			old: "up && now.Sub(hp.handedOn) >= transferAwayRetry", with: "(up || true) && now.Sub(hp.handedOn) >= transferAwayRetry",
			tests: []string{"./pkg/broker"}, run: "TestLoneLeaderWithoutPositions",
		},
		{
			name: "RefusingIsSaid: the health is silent about a replica that refuses its leader", file: "pkg/host/salvage.go",
			old: "if hp.Replica.Refusing() {", with: "if false {",
			tests: []string{"./pkg/broker"}, run: "RefusesItsLeader",
		},
		{
			name: "RefusingIsLogged: the log is silent about a replica that refuses its leader", file: "pkg/host/replica.go",
			old: "				if err == nil {\n					rs.reportRefusing", with: "				if false {\n					rs.reportRefusing",
			tests: []string{"./pkg/broker"}, run: "RefusesItsLeader",
		},
	}
}

// damageMistakes are mistakes about copies that are damaged, and about finding them.
func damageMistakes() []mistake {
	return []mistake{
		{
			name: "a damaged leader takes out followers that it cannot serve", file: "pkg/coord/membership.go",
			old: "\t\tif m.logDamaged {\n", with: "\t\tif false {\n",
			tests: []string{"./pkg/broker"}, run: "TestCorruptionBeforeComparisonEndsTerm",
		},
		{
			name: "a damaged leader that hands over is not reported", file: "pkg/host/quarantine.go",
			old: "leads := hp.Led.Load() != nil && p.Leader == q.o.Self", with: "leads := hp.Led.Load() != nil",
			tests: []string{"./pkg/broker"}, run: "TestDamagedLeaderIsReportedDuringTransfer",
		},
		{
			name: "what is to be reported of a replica during a report is dropped", file: "pkg/host/suspect.go",
			old: "	if q.reporting[key] != s {", with: "	if false {", tests: []string{"./pkg/host"}, run: "TestReportReplaces",
		},
		{
			name: "a leader cannot yield to a replica that was moved away", file: "pkg/host/suspect.go",
			old: "	if !moved {", with: "	if true {", tests: []string{"./pkg/host"}, run: "TestLeaderThatCannotYield",
		},
		{
			name: "small replicas are not checked for damage in an interval", file: "pkg/scrubber/scrubber.go",
			old: "max(r.Log().Bytes(), least)", with: "r.Log().Bytes()",
			tests: []string{"./pkg/broker"}, run: "ManySmallReplicas",
		},
		{
			name: "the scrubber remembers what is held no longer", file: "pkg/scrubber/scrubber.go",
			old: "return !held[name] })", with: "return false })",
			tests: []string{"./pkg/scrubber"}, run: "EveryReplica",
		},
		{
			name: "the scrubber forgets with a restart how far it was", file: "pkg/scrubber/scrubber.go",
			old: "if err == nil && json.Unmarshal(raw, &notes) != nil {", with: "if err == nil || json.Unmarshal(raw, &notes) != nil {",
			tests: []string{"./pkg/scrubber"}, run: "EveryReplica",
		},
		{
			name: "consumers are led past what other copies hold", file: "pkg/host/roles.go",
			old: "return q.waits(h, hp, err) }", with: "return q.elsewhere(h, hp.index) }", tests: []string{"./pkg/broker"}, run: "TestOnlyInSyncCopyIsRepairedFromOthers",
		},
		{
			name: "any copy is believed to hold what was lost", file: "pkg/commitlog/repair/copy.go",
			old: "err == nil && b.Epoch() == w.Last && b.End() == w.Behind", with: "err == nil && b.End() == w.Behind",
			tests: []string{"./pkg/commitlog/repair"}, run: "TestCopyIsTrustedIfItAgreesAfterDamage",
		},
		{
			name: "a part of a damaged range is put into a log", file: "pkg/commitlog/repair/repair.go",
			old: "	if is.From != r.From || is.Next != r.Next {", with: "	if false {",
			tests: []string{"./pkg/commitlog/repair"}, run: "TestPartOf",
		},
		{
			name: "one damaged range that no replica holds makes the repair skip all others", file: "pkg/commitlog/repair/sought.go",
			old: "				if o.Holds(e) {", with: "				if true {", tests: []string{"./pkg/commitlog/repair"}, run: "TestPartsOfAbandonedRangesAreSkipped",
		},
		{
			name: "deliveries stay suspended for damage that was given up meanwhile", file: "pkg/host/repair.go",
			old: "	if !m.waits(h, hp, err) {", with: "	if false {", tests: []string{"./pkg/host"}, run: "TestDeliveriesResumeWhenRepairIsAbandoned",
		},
		{
			name: "an epoch that damage may hide is taken for known", file: "pkg/commitlog/epochs.go",
			old: "	if off > l.unsure {", with: "	if true {", tests: []string{"./pkg/commitlog"}, run: "TestEpochOfDamagedBatchIsKnownOrNot",
		},
		{
			name: "dedup ids that cannot be read are taken for new", file: "pkg/once/keeper.go",
			old: "if k.o.Damaged != nil && k.o.Damaged(damaged) {", with: "if false {",
			tests: []string{"./pkg/broker"}, run: "TestLeaderThatCannotReadDedupIDs",
		},
	}
}

// relayMistakes are mistakes about consumers at other nodes while a leader repairs its log.
func relayMistakes() []mistake {
	return []mistake{
		{
			name: "a relay of an ordered channel holds what it has over a new term", file: "pkg/consume/sources.go",
			old: "if ordered && !ofEpochs(r, t) ||", with: "if", tests: []string{"./pkg/broker"}, run: "TestOrderedRelayDeliversNothingOfEarlierTerm",
		},
		{
			name: "a relay delivers again what its client has finished", file: "pkg/relay/room.go",
			old: "if d.Attempts > 1 && (", with: "if false && (", tests: []string{"./pkg/broker"}, run: "TestRelayDropsADelivery",
		},
		{
			name: "a relay takes an old Finish for one of a later delivery", file: "pkg/relay/relay.go",
			old: "\t\tr.sent = nil\n", with: "", tests: []string{"./pkg/broker"}, run: "TestRelayDeliversAgain",
		},
		{
			name: "a client is disconnected when its node does not lead any more", file: "pkg/consume/subscription.go",
			old: "s.ask.followsLeaders() && !s.c.host.Leaving()", with: "false",
			tests: []string{"./pkg/broker"}, run: "TestDeposedLeaderFollows",
		},
		{
			name: "clients stay with a node that is about to stop", file: "pkg/consume/subscription.go",
			old: "s.ask.followsLeaders() && !s.c.host.Leaving()", with: "s.ask.followsLeaders()",
			tests: []string{"./pkg/broker"}, run: "TestPromptConsumerSeesNothingTwice",
		},
		{
			name: "a relay forgets a partition that begins a new epoch", file: "pkg/consume/subscription.go",
			old: "case lp == nil || lp.Term.Epoch() == epoch:", with: "case lp == nil || epoch > 0:",
			tests: []string{"./pkg/broker"}, run: "TestRelayContinuesInNewEpoch",
		},
		{
			name: "a relay goes on where others may have led in between", file: "pkg/consume/subscription.go",
			old: "case lp.Term.Epoch() != epoch+1 ||", with: "case lp.Term.Epoch() > epoch+1:\n\t\t\tcontinue\n\t\tcase",
			tests: []string{"./pkg/broker"}, run: "TestRelayContinuesInNewEpoch",
		},
		{
			name: "a relay of an ordered channel stays for the next term", file: "pkg/consume/subscription.go",
			old: " || ordered:", with: " || ordered && false:", tests: []string{"./pkg/broker"}, run: "TestLeaderEndsOrderedRelayWithTerm",
		},
		{
			name: "a part of what is given up is waited for", file: "pkg/commitlog/repair/sought.go",
			old: "			if x.given && o.From <= at", with: "			if s.ranges[e] == nil && x.given && o.From <= at",
			tests: []string{"./pkg/commitlog/repair"}, run: "TestPartsOfAbandonedRangesAreSkipped",
		},
	}
}
