package main

// redoMistakes are about the journal that many files are synced through.
func redoMistakes() []mistake {
	tests := []string{"./pkg/redo"}
	return []mistake{
		{
			name: "a record is not synced", file: "pkg/redo/journal.go",
			old: "		err = vfs.SyncAside(half)\n", with: "		err = nil\n", tests: tests,
		},
		{
			name: "a half is used again before its files are synced", file: "pkg/redo/settle.go",
			old: "if err := syncFile(j.fs, f.path); err != nil {", with: "if err := error(nil); err != nil {", tests: tests,
		},
		{
			name: "a half is settled without a sync of its head", file: "pkg/redo/settle.go",
			old: "			return vfs.SyncAside(at)\n", with: "			return nil\n", tests: tests,
		},
		{
			name: "a file that is settled in one half is settled in both", file: "pkg/redo/settle.go",
			old: "f.live.Store(f.live.Load() &^ (1 << half))", with: "f.live.Store(0)", tests: tests,
		},
		{
			name: "a half is begun while it is being settled", file: "pkg/redo/journal.go",
			old: "for j.settling != nil {", with: "for false {", tests: tests,
		},
		{
			name: "a journal that failed goes on", file: "pkg/redo/journal.go",
			old: "return j.failLocked(err)\n	}\n	j.number++", with: "return err\n	}\n	j.number++", tests: tests,
		},
		{
			name: "a live file is synced directly and stays live", file: "pkg/redo/fs.go",
			old: "	return s.journal.void(f)\n}", with: "	return nil\n}", tests: tests,
		},
		{
			name: "what was written before a file was opened is not synced", file: "pkg/redo/fs.go",
			old: "f.known && !f.resized", with: "!f.resized", tests: tests,
		},
		{
			name: "a length is not synced", file: "pkg/redo/fs.go",
			old: "f.known && !f.resized", with: "f.known", tests: tests,
		},
		{
			name: "a new file inherits what the journal holds of its name", file: "pkg/redo/fs.go",
			old: "if err := s.void(s.named(name)); err != nil {", with: "if err := s.void(nil); err != nil {", tests: tests,
		},
		{
			name: "what is voided is replayed", file: "pkg/redo/replay.go",
			old: "delete(writes, path)", with: "_ = path", tests: tests,
		},
		{
			name: "what is replayed is not synced", file: "pkg/redo/replay.go",
			old: "settle(f), f.Close()", with: "f.Close()", tests: tests,
		},
		{
			name: "a damaged record is taken for the end", file: "pkg/redo/replay.go",
			old: "		if rec.number != read+1 {\n", with: "		if rec.number <= read {\n", tests: tests,
		},
		{
			name: "redo: the end of the older half is not known", file: "pkg/redo/journal.go",
			old: "head{generation: j.generation, before: j.before}.encode()", with: "head{generation: j.generation}.encode()", tests: tests, run: "TestLastRecordOfOlderHalfIsNoTornEnd|BothHalves",
		},
		{
			name: "redo: what cannot be read behind the records was none", file: "pkg/redo/replay.go",
			old: " || last == 0 && m.holes", with: "", tests: tests, run: "TestOnlyUnreadablePageIsLost|TestUnreadableHalfIsDamageAndReplaced|TestUnreadableSettledHalfIsNoDamage",
		},
	}
}

// roundMistakes are about rounds, in which many logs are written and synced together.
func roundMistakes() []mistake {
	const coordRounds = "Round"
	return []mistake{
		{
			name: "rounds: nothing is synced", file: "pkg/redo/rounds.go",
			old: "err := fs.journal.submit(r.requests...)", with: "err := error(nil)", tests: []string{"./pkg/redo"},
		},
		{
			name: "rounds: the members learn nothing of a failed sync", file: "pkg/redo/rounds.go",
			old: "		m.Synced(&r.gathers, err)\n", with: "		_ = err\n		m.Synced(&r.gathers, nil)\n", tests: []string{"./pkg/redo"},
		},
		{
			name: "rounds: a length is not synced", file: "pkg/redo/rounds.go",
			old: "!f.known || f.resized || ", with: "!f.known || ", tests: []string{"./pkg/redo"},
		},
		{
			name: "rounds: a log is durable whatever became of the sync", file: "pkg/commitlog/rounds.go",
			old: "	if err != nil {\n		return l.fail(err)\n	}\n	l.durable", with: "	l.durable", tests: []string{"./pkg/coord"}, run: "Journal|Round",
		},
		{
			name: "rounds: a group counts before its sync", file: "pkg/coord/appender.go",
			old: "			a.group = g\n", with: "			a.group = g\n			a.acknowledge(g)\n", tests: []string{"./pkg/coord"}, run: coordRounds,
		},
		{
			name: "rounds: what arrived during a round is left", file: "pkg/coord/appender.go",
			old: "	} else {\n		a.acknowledge(g)\n	}\n	a.again()\n", with: "	} else {\n		a.acknowledge(g)\n	}\n	a.running.Done()\n", tests: []string{"./pkg/coord"}, run: coordRounds,
		},
		{
			name: "rounds: a round waits for what its member waits for", file: "pkg/coord/appender.go",
			old: "	if !t.w.Quick(g.size) {\n", with: "	if false {\n", tests: []string{"./pkg/coord"}, run: coordRounds,
		},
		{
			name: "rounds: a follower answers before its sync", file: "pkg/coord/replication/rounds.go",
			old: "return (last || len(f.group) > 1) && f.log.DurableEnd() < f.log.End()", with: "return false", tests: []string{"./pkg/coord"}, run: coordRounds,
		},
		{
			name: "rounds: a follower takes a failed sync for a success", file: "pkg/coord/replication/rounds.go",
			old: "answerAll(m.f, with, s.End(err))", with: "_ = s.End(err)\n	answerAll(m.f, with, nil)", tests: []string{"./pkg/coord"}, run: coordRounds,
		},
		{
			name: "rounds: what members send is held while the round is synced", file: "pkg/redo/rounds.go",
			old: "	r.gathers.Release() // before the sync", with: "	// before the sync", tests: []string{"./pkg/redo"}, run: "TestMembersSendsAreGatheredInEachPhase",
		},
		{
			name: "rounds: what a term pushes does not gather", file: "pkg/coord/appender.go",
			old: "		f.link.gather(with)\n", with: "		_ = f\n", tests: []string{"./pkg/coord"}, run: "Gather",
		},
		{
			name: "rounds: all logs wait for a link that is being opened", file: "pkg/coord/follower.go",
			old: "	if !l.set.Load() {\n		return\n	}\n	if g, ok := l.link", with: "	if g, ok := l.get()", tests: []string{"./pkg/coord"}, run: "RoundDoesNotWait",
		},
		{
			name: "rounds: what gathers waits for ever behind its writer's wake", file: "pkg/peer/outbox.go",
			old: "if o.waiting.bytes == 0 || o.heldLocked() {\n		o.awake = false", with: "if o.waiting.bytes == 0 || o.heldLocked() {\n		o.awake = o.waiting.bytes > 0",
			tests: []string{"./pkg/peer"}, run: "TestChunkClassesFitRequests|TestHoldAfterWritersWake|TestHungHolder|TestManyHoldersLoseNothing|TestSlowPeerDelaysNoOther|Held",
		},
	}
}

// noteMistakes concern notes that wait for the journal.
func noteMistakes() []mistake {
	tests := []string{"./pkg/redo"}
	return []mistake{
		{
			name: "a half is settled before the notes are written", file: "pkg/redo/settle.go",
			old: "errors.Join(j.notes.flush(f), j.land(f))", with: "j.land(f)", tests: tests, run: "Note",
		},
		{
			name: "a file is voided before its note is written", file: "pkg/redo/journal.go",
			old: "if err := j.notes.write(f); err != nil {", with: "if err := error(nil); err != nil {", tests: tests,
		},
		{
			name: "a note that comes while the journal forgets is kept", file: "pkg/redo/notes.go",
			old: "about.ending > 0 || ", with: "", tests: tests,
		},
		{
			name: "a note about what is not in the journal is kept", file: "pkg/redo/notes.go",
			old: " || about.live.Load()&^n.settling == 0", with: "", tests: tests,
		},
		{
			name: "a note about what is being settled is kept", file: "pkg/redo/notes.go",
			old: "&^n.settling", with: "", tests: tests,
		},
		{
			name: "a note comes back over what was written later", file: "pkg/redo/fs.go",
			old: "		h.fs.journal.notes.forget(f)\n", with: "		_ = f\n", tests: tests,
		},
		{
			name: "a note overtakes a later one", file: "pkg/redo/notes.go",
			old: "	n.writing.Lock()\n	defer n.writing.Unlock()\n	n.mu.Lock()\n	x :=", with: "	n.mu.Lock()\n	x :=", tests: tests,
		},
		{
			name: "what was overwritten goes to the journal", file: "pkg/redo/fs.go",
			old: "case off != f.dirty[0].to || ", with: "case ", tests: tests,
		},
		{
			name: "the note of what is not durable waits", file: "pkg/commitlog/commitnote.go",
			old: " && committed <= l.DurableEnd()", with: "", tests: []string{"./pkg/commitlog"}, run: "TestCommitRecordWaitsForJournal",
		},
	}
}

// lateMistakes are about bytes that are in the journal before they are in their file.
func lateMistakes() []mistake {
	tests := []string{"./pkg/redo"}
	land := "	if err := h.fs.journal.land(f); err != nil {\n"
	none := "	if err := error(nil); err != nil {\n"
	return []mistake{
		{
			name: "a half is settled before its files hold all of it", file: "pkg/redo/settle.go",
			old: "errors.Join(j.notes.flush(f), j.land(f))", with: "j.notes.flush(f)", tests: tests,
		},
		{
			name: "a file is renamed before it holds all that was written", file: "pkg/redo/journal.go",
			old: "	err := j.land(f)\n	if err == nil {\n", with: "	var err error\n	if err == nil {\n", tests: tests,
		},
		{
			name: "a deferred write comes over a later one", file: "pkg/redo/fs.go",
			old: land + "		return 0, err\n", with: none + "		return 0, err\n", tests: tests,
		},
		{
			name: "a deferred write comes back behind a truncation", file: "pkg/redo/fs.go",
			old: land + "		return err\n	}\n	return h.File.Truncate", with: none + "		return err\n	}\n	return h.File.Truncate", tests: tests,
		},
		{
			name: "a direct sync leaves out what is not in the file", file: "pkg/redo/fs.go",
			old:  "	if err := s.journal.land(f); err != nil {\n		return err\n	}\n	if err := h.File.SyncData()",
			with: "	if err := h.File.SyncData()", tests: tests,
		},
		{
			name: "a read does not find what was written", file: "pkg/redo/late.go",
			old: "f.late.p != nil && off < f.late.end() && f.late.at < off+int64(n)", with: "false", tests: tests,
		},
		{
			name: "what is not synced each time waits in memory", file: "pkg/commitlog/output.go",
			old: "	if synced {\n", with: "	if true {\n", tests: []string{"./pkg/commitlog"}, run: "TestOnlySyncAlwaysDefersWrites",
		},
		{
			name: "what was written under the policy before is not synced", file: "pkg/coord/replication/syncer.go",
			old: "	if s.owes {\n", with: "	if false {\n", tests: []string{"./pkg/coord/replication"}, run: "Syncer",
		},
	}
}

// landMistakes are about deferred writes that cannot be put in place, and how many there may be.
func landMistakes() []mistake {
	tests := []string{"./pkg/redo"}
	return []mistake{
		{
			name: "land: a write that is kept is reported as if nothing was written", file: "pkg/redo/late.go",
			old: "return len(p), j.landed(f, err)", with: "return 0, j.landed(f, err)", tests: tests, run: "TestDeferredWriteWithoutSpaceIsKept",
		},
		{
			name: "land: what cannot be put in place is taken for a bad sector", file: "pkg/redo/late.go",
			old: "return &landError{f.path, err}", with: "return err", tests: tests, run: "TestFailedDeferredWriteFailsJournal",
		},
		{
			name: "land: the journal goes on without what cannot be put in place", file: "pkg/redo/late.go",
			old: "\t\t_ = j.fail(err)\n", with: "", tests: tests, run: "TestFailedDeferredWriteFailsJournal",
		},
		{
			name: "land: a journal without a descriptor ends the node", file: "pkg/redo/settle.go",
			old: "	if !vfs.OutOfFiles(err) {\n", with: "	if err != nil || true {\n", tests: tests, run: "WaitsForDescriptor",
		},
		{
			name: "land: any number of bytes wait", file: "pkg/redo/late.go",
			old: "j.lateBytes.Load() > maxLate", with: "false", tests: tests, run: "Bounded",
		},
		{
			name: "land: what is removed has something to come", file: "pkg/redo/late.go",
			old: "\tfor _, f := range all {\n", with: "\tfor _, f := range all[:0] {\n", tests: tests, run: "TestDeferredWritesPrecedeRemoval",
		},
		{
			name: "land: the journal forgets what a file could not sync", file: "pkg/redo/journal.go",
			old: "\tif j.live(f) {\n\t\t_ = j.fail(err)", with: "\tif false {\n\t\t_ = j.fail(err)", tests: tests, run: "TestFailedSyncOfLiveFileFailsJournal|TestJournalSyncFailureFailsAllItsUsers",
		},
		{
			name: "land: two changes of the policy forget a sync", file: "pkg/coord/replication/syncer.go",
			old: "s.owes = s.owes || ", with: "s.owes = ", tests: []string{"./pkg/coord/replication"}, run: "TestSyncerKeepsPreviousPolicysPromise",
		},
	}
}

// markerMistakes concern the markers of commands that use backups.
func markerMistakes() []mistake {
	tests := []string{"./pkg/backup"}
	return []mistake{
		{
			name: "backups are deleted while one is restored", file: "pkg/backup/delete.go",
			old: "for _, o := range names.reading {", with: "for _, o := range names.reading[:0] {", tests: tests, run: "WhileOneIsRead",
		},
		{
			name: "the marker of a process in another container counts as one of this machine", file: "pkg/backup/owner.go",
			old: "by.Boot != o.Boot || by.Space != o.Space", with: "by.Boot != o.Boot", tests: tests, run: "KilledProcess",
		},
		{
			name: "a process of another user that /proc hides has ended", file: "pkg/backup/owner.go",
			old: "!os.IsNotExist(err) || known(pid)", with: "!os.IsNotExist(err) || false && known(pid)", tests: tests, run: "KilledProcess",
		},
		{
			name: "a backup completes that was deleted meanwhile", file: "pkg/backup/lease.go",
			old: "} else if !there {", with: "} else if false && !there {", tests: tests, run: "TestDeletedBackupStaysDeleted",
		},
		{
			name: "a restore goes on whose marker is too old", file: "pkg/backup/lease.go",
			old: "lapsed(err)", with: "_ = lapsed", tests: tests, run: "MarkerIsTooOld",
		},
	}
}

// replayMistakes concern the journal at a start.
func replayMistakes() []mistake {
	tests := []string{"./pkg/redo"}
	return []mistake{
		{
			name: "the journal is not kept for a file that lacks its writes", file: "pkg/redo/replay.go",
			old: "if !y.unwritable.Load() || !m.counts() {", with: "if true {", tests: tests,
		},
		{
			name: "every error of a replay is damage of one file", file: "pkg/redo/replay.go",
			old: "if isDamage(err) && y.o.Unwritable != nil {", with: "if err != nil && y.o.Unwritable != nil {", tests: tests,
		},
		{
			name: "the writes to a file are lost with the record that names it", file: "pkg/redo/journal.go",
			old: "|| j.number-f.namedIn >= nameAgain {", with: "{",
			tests: tests, run: "LossOfOneRecord",
		},
		{
			name: "a name is not taken from the other half of the journal", file: "pkg/redo/replay.go",
			old: "path, ok = all[e.file] //", with: "_ = all //",
			tests: tests, run: "LossOfOneRecord",
		},
		{
			name: "a kept journal is removed although a file lacks its bytes", file: "pkg/redo/kept.go",
			old: "if len(y.report.Lacks) > 0 {", with: "if false {", tests: tests, run: "KeptJournal",
		},
		{
			name: "a damaged journal that was kept is removed", file: "pkg/redo/kept.go",
			old: "if m.damaged || m.holes || r.Damaged {", with: "if false {", tests: tests, run: "KeptJournal",
		},
		{
			name: "a failed sync of a replayed file is tried again", file: "pkg/redo/replay.go",
			old: "if isDamage(err) && written == 0 && !last {", with: "if isDamage(err) && !last {", tests: tests, run: "FailedSync",
		},
		{
			name: "a disk that fails for a moment is not tried again", file: "pkg/redo/replay.go",
			old: "if isDamage(err) && written == 0 && !last {", with: "if false {", tests: tests, run: "TriedAgain",
		},
	}
}
