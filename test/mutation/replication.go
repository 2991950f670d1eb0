package main

import "slices"

// The packages of replication.
const (
	followerFile   = "pkg/coord/replication/follower.go"
	replicatorFile = "pkg/coord/replication/replicator.go"
	termFile       = "pkg/coord/term.go"
)

// replicationMistakes concern how a follower and its leader handle batches.
func replicationMistakes() []mistake {
	return slices.Concat(commitMistakes(), syncMistakes(), fencingMistakes(), comparisonMistakes())
}

// commitMistakes concern the committed end and its notifications.
func commitMistakes() []mistake {
	return []mistake{
		{
			name: "a replica with a full disk joins and leaves in turn", file: "pkg/coord/isr/change.go",
			old: "r.Ready && !r.Gone && !r.lags(now, lag) &&", with: "r.Ready && !r.Gone &&", tests: []string{"./pkg/coord/isr"}, run: "InTurn",
		},
		{
			name: "a busy follower gets the committed end in a separate request", file: replicatorFile,
			old: "r.o.Now().Sub(r.putAt) >= rest", with: "r.o.Now().Sub(r.putAt) >= 0",
			tests: []string{"./pkg/coord/replication"}, run: "LearnsTheCommittedEnd",
		},
		{
			name: "a follower writes into the whole disk reserve", file: followerFile,
			old: "f.following.Full != nil && f.following.Full()", with: "f.following.Full != nil && false",
			tests: []string{"./pkg/coord/replication"}, run: "TestFollowerWithFullDiskRefusesBatches",
		},
		{
			name: "a follower with a full disk does not hear what is committed", file: followerFile,
			old: "\t\tf.told = max(f.told, m.committed)\n\t\treturn f.answer(outcomeFull), false\n", with: "\t\treturn f.answer(outcomeFull), false\n",
			tests: []string{"./pkg/coord/replication"}, run: "TestFollowerWithFullDiskRefusesBatches",
		},
		{
			name: "a disk that was brimful takes batches again below the reserve", file: "pkg/diskspace/diskspace.go",
			old: "d.brimful || free < reserve/FollowerShare", with: "free < reserve/FollowerShare",
			tests: []string{"./pkg/diskspace"}, run: "TestLowDiskHasHysteresis",
		},
		{
			name: "AppendIsNotCommit: a follower calls committed what it holds", file: followerFile,
			old:   "if c := min(f.told, f.log.End()); c > f.log.CommittedEnd() {",
			with:  "if c := f.log.End(); c > f.log.CommittedEnd() {",
			tests: replicationTests,
		},
		{
			name: "CommitInEpoch: a new leader commits what it inherits at sight", file: "pkg/coord/membership.go",
			old:   "isr.New(o.View.ISR, o.Log.CommittedEnd())",
			with:  "isr.New(o.View.ISR, start)",
			tests: membershipTests,
		},
		{
			name: "CommitInEpoch: a member that has said nothing does not count", file: "pkg/coord/isr/tracker.go",
			old:   "\t\tif !m.known {\n\t\t\treturn t.committed, false\n",
			with:  "\t\tif !m.known {\n\t\t\tcontinue\n",
			tests: membershipTests,
		},
		{
			name: "MinimumHoldsEnd: too few in sync commit what is new", file: "pkg/coord/isr/tracker.go",
			old: "if applied < t.least {", with: "if false {",
			tests: membershipTests,
		},
		{
			name: "FailedOnlyUnwritten: a publish that was written is called refused when the term ends", file: "pkg/coord/backlog.go",
			old: "\tcase ended:\n\t\tg.err = failure.Unconfirmed", with: "\tcase ended:\n\t\tg.err = failure.NotLeading",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "FailedOnlyUnwritten: a publish that was written is called refused when it takes too long", file: "pkg/coord/backlog.go",
			old: "\t\treturn failure.Unconfirmed\n", with: "\t\treturn failure.TooFewISR\n",
			tests: []string{"./pkg/coord"},
		},
	}
}

// syncMistakes concern what counts as durable.
func syncMistakes() []mistake {
	return []mistake{
		{
			name: "a batch keeps memory that the next one is formed in", file: "pkg/commitlog/builder.go",
			old: "kept = bytes.Clone(sealed)", with: "_ = bytes.Clone(nil)",
			tests: []string{"./pkg/commitlog"},
		},
		{
			name: "AckAfterSync: a follower answers before it syncs", file: followerFile,
			old: "return f.answer(outcomeOK), m.sync || due", with: "_ = due\n\treturn f.answer(outcomeOK), false",
			tests: replicationTests,
		},
		{
			name: "AckAfterSync: a follower answers though its sync failed", file: followerFile,
			old: "f.group[i].answer = f.refusal(err)", with: "_, _ = i, f.refusal(err)",
			tests: replicationTests,
		},
		{
			name: "AckAfterSync: a leader does not sync", file: termFile,
			old: "return t.syncer.Appended(batch.Count()), nil", with: "return t.syncer.Appended(batch.Count()) && false, nil",
			tests: []string{"./pkg/coord"}, run: "TestSyncPolicies",
		},
		{
			name: "PersistEpoch: an adopted epoch is not stored", file: followerFile,
			old: "if err := f.log.Checkpoint(0); err != nil {", with: "if err := f.log.Failed(); err != nil {",
			tests: replicationTests,
		},
	}
}

// fencingMistakes are about leaders and sessions of another time.
func fencingMistakes() []mistake {
	return []mistake{
		{
			name: "FenceFollower: a follower serves the leader of an older epoch", file: followerFile,
			old: "case h.epoch < f.following.Epoch:", with: "case false:",
			tests: replicationTests,
		},
		{
			name: "FenceLeader: answers of an earlier session count", file: "pkg/coord/follower.go",
			old: "if p.Session != f.holds.Session || f.began != f.incarnation {", with: "if f.began != f.incarnation {",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "FenceLeader: answers of an earlier life of the node count", file: "pkg/coord/follower.go",
			old: "if p.Session != f.holds.Session || f.began != f.incarnation {", with: "if p.Session != f.holds.Session {",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "TermCloses: a fenced writer appends", file: "pkg/commitlog/writer.go",
			old:   "\tcase l.writer != w && l.epoch > w.epoch:\n",
			with:  "\tcase l.writer != nil:\n\t\treturn l.refuseFailed()\n\tcase l.writer != w && l.epoch > w.epoch:\n",
			tests: []string{"./pkg/commitlog"},
		},
		{
			name: "TermCloses: a term that another superseded goes on", file: termFile,
			old: "\tfirst := !t.ended\n\tt.endLocked(failure.NotLeading)\n", with: "\tfirst := !t.ended\n",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "SessionResets: a term keeps what it believed of a follower", file: "pkg/coord/update.go",
			old: "\t\tw.t.members.tracker.Forget(w.f.node)\n", with: "",
			tests: []string{"./pkg/coord"},
		},
		{
			name: "SessionResets: a replicator keeps what it believed of a follower", file: replicatorFile,
			old: "\tr.session++\n\tr.holds = Progress{}\n", with: "\tr.session++\n",
			tests: replicationTests,
		},
		{
			name: "SessionResets: a follower that became another process is believed", file: "pkg/coord/membership.go",
			old: "\t\t\tm.tracker.Forget(f.node)\n\t\t\trenewed", with: "\t\t\trenewed",
			tests: []string{"./pkg/coord"},
		},
	}
}

// comparisonMistakes are about how logs are compared.
func comparisonMistakes() []mistake {
	return []mistake{
		{
			name: "Reconcile: a session begins at the follower's end, without a comparison", file: replicatorFile,
			old: "r.align(session, common(mine, its), a.start)", with: "_, _ = mine, its\n\t\tr.begin(session, point{End: min(a.end, log.End())})",
			tests: replicationTests,
		},
		{
			name: "WalkBack: the leader tries the same place again", file: replicatorFile,
			old: "func() { r.align(session, b.First(), start) })", with: "func() { r.align(session, b.End(), start) })",
			tests: replicationTests,
		},
		{
			name: "WalkBack: a follower cuts below its committed end", file: "pkg/commitlog/truncate.go",
			old: "if end < l.CommittedEnd() {", with: "if false {",
			tests: []string{"./pkg/commitlog"},
		},
		{
			name: "LongerStays: what is committed is given up without an operator's election", file: followerFile,
			old: "errors.Is(err, commitlog.ErrBelowCommitted) && f.log.LastEpoch() < f.following.Unclean:", with: "errors.Is(err, commitlog.ErrBelowCommitted):",
			tests: []string{"./pkg/coord"}, run: "TestFollowerKeepsCommittedEntries",
		},
		{
			name: "LongerStays: a follower cuts the positions of a log that it does not truncate", file: followerFile,
			old: "if committed := f.log.CommittedEnd(); m.to.End < committed {", with: "if committed := f.log.CommittedEnd(); m.to.End < committed && false {",
			tests: []string{"./pkg/coord/replication"}, run: "TestRefusedTruncationCutsNoPositions",
		},
		{
			name: "CompareFirst: a leader from disk admits a joiner before a comparison", file: "pkg/coord/membership.go",
			old: "keeps && rested && !waits {", with: "keeps && rested {",
			tests: []string{"./pkg/coord"}, run: "FromDisk",
		},
		{
			name: "CompareFirst: a replica that was compared with a leader counts as verified", file: "pkg/coord/replica.go",
			old: "(v.MinISR > 1 || !r.follower.Compared())", with: "!r.follower.Compared()",
			tests: []string{"./pkg/coord"}, run: "TestComparedFollowerIsNotVerified|TestLeaderFromDiskComparesBeforeAdmitting",
		},
		{
			name: "CompareFirst: a leader from disk appends before a comparison", file: appenderFile,
			old: " || t.members.unverified(t.o.Now()) {", with: " {",
			tests: []string{"./pkg/coord"}, run: "TestComparedFollowerIsNotVerified|TestLeaderFromDiskComparesBeforeAdmitting",
		},
		{
			name: "ReconcileByContent: a cut is compared by offset only", file: followerFile,
			old: "if err != nil || at != m.to {", with: "if err != nil || at.End != m.to.End {",
			tests: replicationTests,
		},
		{
			name: "DuplicateByContent: a batch is a duplicate by its offset", file: followerFile,
			old: "if pointOf(mine) != pointOf(b) || mine.First() != b.First() {", with: "if mine.First() != b.First() {",
			tests: replicationTests,
		},
		{
			name: "DuplicateByContent: the batch before is compared by its offset", file: followerFile,
			old: "\tif m.prev != last {\n\t\tif rest", with: "\tif m.prev.End != last.End {\n\t\tif rest",
			tests: replicationTests,
		},
		{
			name: "DuplicateByContent: a put behind a duplicate is appended whatever came before", file: followerFile,
			old: "\tif m.prev != last {\n\t\treturn nil, errMalformed\n", with: "\tif m.prev.End != last.End {\n\t\treturn nil, errMalformed\n",
			tests: replicationTests,
		},
	}
}
