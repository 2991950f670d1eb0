package main

// trashMistakes are about deleted topics that can be restored.
func trashMistakes() []mistake {
	here, state := []string{"./pkg/broker"}, []string{"./pkg/meta"}
	return []mistake{
		{
			name: "trash: a deleted topic is removed from the disk at once", file: "pkg/removal/removal.go",
			old: "if meta.TrashOf(s).Holds(name, in) {\n\t\tr.keep(name, in)\n\t\treturn nil", with: "if false {\n\t\treturn nil", tests: here, run: "RestoredTopic",
		},
		{
			name: "trash: the only copy is not told", file: "pkg/meta/trash.go",
			old: " || len(p.ISR) == 1 && p.ISR[0] == id", with: "", tests: []string{"./pkg/meta"}, run: "TestTrashOfANode",
		},
		{
			name: "trash: a start removes what can be restored", file: "pkg/removal/removal.go",
			old: "case meta.TrashOf(s).Holds(name, in):", with: "case false:", tests: here, run: "RestoredTopic",
		},
		{
			name: "trash: the ledger forgets what can be restored", file: "pkg/datadir/ledger.go",
			old: "t = meta.TrashOf(s).Topic(topic, in) // it may be restored", with: "t = nil", tests: []string{"./pkg/datadir"}, run: "Ledger|Trash",
		},
		{
			name: "trash: what was purged stays on the disk", file: "pkg/host/follow.go",
			old: "range meta.TrashOf(s).Gone(meta.TrashOf(f.seen))", with: "range meta.TrashOf(f.seen).Gone(meta.TrashOf(f.seen))", tests: here, run: "TestPurgedTopicLeavesTheDisk",
		},
		{
			name: "trash: a restored topic is purged", file: "pkg/removal/removal.go",
			old: "t != nil && t.Incarnation == in {\n\t\t\tr.sweep", with: "false && t != nil {\n\t\t\tr.sweep", tests: here, run: "RestoredTopic",
		},
		{
			name: "trash: a full disk purges nothing", file: "pkg/host/disk.go",
			old: "\t\td.purge(ctx)\n", with: "", tests: here, run: "TestFullDiskPurgesOldestTopic",
		},
		{
			name: "trash: a full disk purges the latest", file: "pkg/meta/trash.go",
			old:   "func (t Trash) All() iter.Seq[*Deleted] { return slices.Values(t.deleted) }",
			with:  "func (t Trash) All() iter.Seq[*Deleted] {\n\treturn func(y func(*Deleted) bool) {\n\t\tfor _, d := range slices.Backward(t.deleted) {\n\t\t\tif !y(d) {\n\t\t\t\treturn\n\t\t\t}\n\t\t}\n\t}\n}",
			tests: here, run: "TestFullDiskPurgesOldestTopic",
		},
		{
			name: "trash: a restored partition goes on in its epoch", file: "pkg/meta/trash.go",
			old: "\t\tp.Epoch++\n", with: "", tests: state, run: "Scripts",
		},
		{
			name: "trash: what a node lost of it does not count", file: "pkg/meta/commands_cluster.go",
			old: "\ts.trash = TrashOf(s).update(func(t *Topic) *Topic { return lost.apply(t, n.ID, s.index) })\n", with: "", tests: state, run: "Scripts",
		},
		{
			name: "trash: a node that left holds replicas of it", file: "pkg/meta/commands_cluster.go",
			old: "\ts.trash, r.Purged = TrashOf(s).withoutNode(c.ID)\n", with: "\t_ = r\n", tests: state, run: "Scripts",
		},
		{
			name: "trash: it grows without a bound", file: "pkg/meta/trash.go",
			old: "partitions > maxTrashPartitions || len(all)-i > maxTrashTopics", with: "false", tests: state, run: "LeaveTheTrash",
		},
		{
			name: "trash: it is never purged", file: "pkg/cluster/controller/core.go",
			old: "len(due) > 0 && len(d.Commands) == 0", with: "false", tests: []string{"./pkg/cluster/controller"}, run: "PurgedInTime",
		},
		{
			name: "trash: a namesake is replaced", file: "pkg/meta/trash.go",
			old: "case now != nil && free == 0:", with: "case false:", tests: state, run: "Scripts",
		},
		{
			name: "trash: a namesake that was not seen is replaced", file: "pkg/meta/trash.go",
			old: "c.Replaces == now.Incarnation {", with: "c.Replaces != 0 {", tests: state, run: "TestRestoreReplacesTopicOfTheSameName",
		},
	}
}

// purgeMistakes concern removal from the trash.
func purgeMistakes() []mistake {
	here, state, purger := []string{"./pkg/broker"}, []string{"./pkg/meta"}, []string{"./pkg/cluster/controller"}
	return []mistake{
		{
			name: "trash: a step of the clock purges it", file: "pkg/cluster/controller/expiry.go",
			old: "return e.clock.Read(now, wall)", with: "return wall", tests: purger, run: "StepOfTheClock",
		},
		{
			name: "trash: a clock that was wrong at the start purges it", file: "pkg/cluster/controller/expiry.go",
			old: "held >= min(age.StepTrust, keep) && ", with: "", tests: purger, run: "TestDeletedTopicIsKeptForItsRetention",
		},
		{
			name: "trash: deleted by a clock that was behind, it is purged at once", file: "pkg/cluster/controller/expiry.go",
			old: "was = sight{now, e.seen != nil}", with: "was = sight{now, false}", tests: purger, run: "TestDeletedTopicIsKeptForItsRetention",
		},
		{
			name: "trash: the time of the deletion is the proposer's", file: "pkg/meta/raftstore/propose.go",
			old: "\tmeta.StampCommand(command, time.Now().UnixNano())\n", with: "", tests: []string{"./pkg/meta/raftstore"}, run: "TestForwardedCommandHasTheTimeOfTheLeader",
		},
		{
			name: "trash: the only copy goes with its node", file: "pkg/meta/commands_cluster.go",
			old: "len(only) > 0 && !c.LoseDeleted", with: "false", tests: state, run: "Scripts",
		},
		{
			name: "trash: a full disk purges what it does not hold", file: "pkg/removal/removal.go",
			old: "r.keeps(d.Topic) && r.holds(d.Topic, least)", with: "r.keeps(d.Topic)", tests: []string{"./pkg/removal"}, run: "Oldest",
		},
		{
			name: "trash: a full disk purges one after the other", file: "pkg/host/disk.go",
			old: "d.removal.Busy() || now.Sub(d.purged) < purgeRest", with: "false", tests: here, run: "TestFullDiskPurgesOldestTopic",
		},
		{
			name: "trash: one of several of a name is restored", file: "pkg/meta/trash.go",
			old: "case c.Incarnation == 0 && ", with: "case false && ", tests: state, run: "TestAmbiguousRestoreIsRefused",
		},
		{
			name: "trash: a topic that was moving keeps both ends", file: "pkg/meta/trash.go",
			old: "p.Moving() && len(in) > 0", with: "false && len(in) > 0", tests: state, run: "TestMoveEndsWhenTopicIsTrashed",
		},
	}
}

// sweepMistakes concern what a node finds on its disk.
func sweepMistakes() []mistake {
	tests := []string{"./pkg/removal"}
	return []mistake{
		{
			name: "the digest of a log ignores a gap", file: "pkg/operate/verify.go",
			old: "case b.First() > next && next < end:", with: "case false:", tests: []string{"./pkg/operate"}, run: "DigestOfALog",
		},
		{
			name: "trash: a node deletes what another has created", file: "pkg/removal/removal.go",
			old: "if !nothing && !r.o.Ledger.Has(datadir.ReplicaName(t.Name, t.Incarnation, i)) {", with: "if nothing && false {", tests: tests, run: "CreatedHere",
		},
		{
			name: "trash: the ledger forgets a copy that is on disk", file: "pkg/datadir/ledger.go",
			old: " && !l.onDisk(entry)", with: "", tests: tests, run: "InTrash",
		},
	}
}
