package main

// positionMistakes concern stored and replicated channel positions.
func positionMistakes() []mistake {
	return []mistake{
		{
			name: "FinReplicatedFirst: a FIN counts before the other replicas know", file: "pkg/topic/finishing.go",
			old: "if c.p.sharing.Shared() {", with: "if c.p.sharing.Shared() && f.data == nil {", tests: positionTests,
		},
		{
			name: "SnapshotFirst: an ordered channel delivers before everyone in sync has the snapshot", file: "pkg/topic/keeper.go",
			old: "k.apart.Store(true)", with: "k.apart.Store(false)", tests: positionTests,
		},
		{
			name: "SnapshotCountsSent: a change overtakes the snapshot that is being made", file: "pkg/sharing/sharing.go",
			old: "\tif o.making {\n", with: "\tif false {\n", tests: positionTests,
		},
		{
			name: "SnapshotTakenOnce: a snapshot is taken again", file: "pkg/topic/standby.go",
			old: "if stamp(number).repeats(s.newest) {", with: "if false {", tests: positionTests,
		},
		{
			name: "ShareNamesPrevious: a follower takes a change of positions behind a gap", file: followerFile,
			old: "\tif m.after > f.shares {\n", with: "\tif false {\n",
			tests: []string{"./pkg/coord/replication"}, run: "TestSharesAfterGapDoNotCount",
		},
		{
			name: "FinNoted: a FIN is not noted", file: "pkg/topic/keeper.go",
			old: "\treturn k.positions.Append(change)\n", with: "\t_ = change\n\treturn nil\n", tests: positionTests,
		},
		{
			name: "a batch is stamped with another reading than its moment", file: "pkg/coord/term.go",
			old: "t.o.Ages.Wall(g.since)", with: "t.o.Ages.Wall(t.o.Now())",
			tests: []string{"./pkg/coord"}, run: "OneReading",
		},
		{
			name: "the age of what was loaded is measured by a later reading", file: "pkg/age/clock.go",
			old: "c.wall(now)-b.Timestamp", with: "c.wall(now.Add(14*time.Millisecond))-b.Timestamp",
			tests: positionTests, run: "LoadedMessageIsNotEarly",
		},
		{
			name: "ForgetBeyondEnd: a position beyond the log is forgotten in memory only", file: "pkg/topic/partition.go",
			old: "if err := errors.Join(positions.Begin(), positions.Save(snap)); err != nil {", with: "if err := errors.Join(); err != nil {",
			tests: positionTests,
		},
		{
			name: "a restored position begins below the log's start", file: "pkg/topic/partition.go",
			old: "\t\tstate.AdvanceTo(p.o.Log.Start())\n", with: "", tests: positionTests,
		},
		{
			name: "sampling delivers one percent more", file: "pkg/topic/consumer.go",
			old: "drawn < rate }", with: "drawn <= rate }", tests: positionTests,
		},
		{
			name: "ForgetBeyondEnd: a follower whose log is cut keeps positions beyond it", file: "pkg/topic/standby.go",
			old: "\treaches := !s.closed && s.known.snapshot().reaches(end)\n", with: "\treaches := !s.closed && s.known.snapshot().reaches(end) && end > 1<<60\n", tests: positionTests,
		},
		{
			name: "an update follows a snapshot of positions that was not stored", file: "pkg/topic/journal.go",
			old: "return !j.ragged && j.base == number", with: "_ = number\n\treturn !j.ragged",
			tests: positionTests, run: "TestUpdateAfterAFailedCheckpointIsNoDamage",
		},
		{
			name: "a channel that an older snapshot of positions lacks starts at the end", file: "pkg/topic/partition.go",
			old: "(positions.damaged != nil || positions.number == 1) && o.Log", with: "false && o.Log",
			tests: positionTests, run: "TestChannelMissingFromOlderSnapshotSkipsNothing",
		},
	}
}
