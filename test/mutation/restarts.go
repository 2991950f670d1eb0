package main

// restartMistakes concern the start of a node with many topics, and their creation and use.
func restartMistakes() []mistake {
	vfs, log, operate := []string{"./pkg/vfs"}, []string{"./pkg/commitlog"}, []string{"./pkg/operate"}
	return []mistake{
		{
			name: "restarts: probes read the metadata from disk each time", file: "pkg/operate/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "true || o.disk.LastIndex", tests: operate, run: "Outlook",
		},
		{
			name: "restarts: what has grown is not read again", file: "pkg/operate/outlook.go",
			old: "o.disk == nil || o.disk.LastIndex", with: "o.disk == nil || false && o.disk.LastIndex", tests: operate, run: "Outlook",
		},
		{
			name: "operators: nodes are judged by outdated metadata", file: "pkg/operate/nodes.go",
			old: "leaderless(gone, silent); missing {", with: "leaderless(gone, silent); false && missing {", tests: operate, run: "WithoutALeader",
		},
		{
			name: "operators: a dry run that an endpoint does not know is carried out", file: "pkg/admin/v1/api.go",
			old: "&& !v.tried[pattern] {", with: "&& false && !v.tried[pattern] {", tests: []string{"./pkg/admin"}, run: "TriedOut",
		},
		{
			name: "operators: a restored channel moves one in use without being told to", file: "pkg/operate/history.go",
			old: "	case !replace:", with: "	case false:", tests: []string{"./pkg/broker"}, run: "ReplacesTheOne",
		},
		{
			name: "restarts: names are synced as data", file: "pkg/vfs/syncs.go",
			old: "nameSync = syncKind{aioSync,", with: "nameSync = syncKind{aioDataSync,", tests: vfs, run: "Names",
		},
		{
			name: "restarts: who asks while a directory is synced counts as covered", file: "pkg/vfs/rounds.go",
			old: "\t\tq.next = nil", with: "\t\t_ = q.next", tests: vfs, run: "Rounds",
		},
		{
			name: "restarts: a channel that does not change is stored", file: "pkg/topic/channel.go",
			old: "\tif same {\n", with: "\tif false && same {\n", tests: []string{"./pkg/topic"}, run: "TestUnchangedConfigurationIsNotStoredAgain",
		},
		{
			name: "tails: each log takes what it may have alone", file: "pkg/commitlog/tail.go",
			old: "t.shared.part(t.limit)", with: "t.limit", tests: log, run: "Tail",
		},
		{
			name: "tails: a log that rests keeps its part", file: "pkg/commitlog/tail.go",
			old: "\t\tt.shared.end()", with: "\t\t_ = t.shared", tests: log, run: "Tail",
		},
		{
			name: "tails: a log takes a part with each batch", file: "pkg/commitlog/tail.go",
			old: "if t.bytes == 0 {\n\t\tt.shared.begin", with: "if true {\n\t\tt.shared.begin", tests: log, run: "Tail",
		},
		{
			name: "tails: what a load was kept for stays until the next", file: "cmd/brokerd/heap.go",
			old: "c.periods != givenBackAfter &&", with: "", tests: []string{"./cmd/brokerd"}, run: "TestIdleGarbageIsCollectedOnce",
		},
	}
}

// backupMistakes concern restoring backups.
func backupMistakes() []mistake {
	format, copies := []string{"./pkg/backup"}, []string{"./internal/backups"}
	return []mistake{
		{
			name: "rates: a backlog comes in at a start", file: "pkg/topic/channel.go",
			old: "flow.Totals{In: s.Counts(p.o.Log.End()).Messages}", with: "flow.Totals{}", tests: []string{"./pkg/topic"}, run: "TestBacklogDoesNotComeIn",
		},
		{
			name: "process: another data directory at its path is its own", file: "cmd/brokerd/lock.go",
			old: "err == nil && os.SameFile(now, l.file)", with: "err == nil && now != nil", tests: []string{"./cmd/brokerd"}, run: "TestLostDataDirectory",
		},
		{
			name: "process: it waits for the reader of its log", file: "cmd/brokerd/logout.go",
			old: "l.idle == nil && len(line) <= logAtOnce && l.takes()", with: "true", tests: []string{"./cmd/brokerd"}, run: "TestNobodyWaitsForTheLog",
		},
		{
			name: "backup: a manifest need not be what was written", file: "pkg/backup/manifest.go",
			old: `if !ok || string(rest) != "sha256 "`, with: `if !ok || false && string(rest) != "sha256 "`, tests: format, run: "Damage",
		},
		{
			name: "backup: a deletion removes chunks that other backups use", file: "pkg/backup/delete.go",
			old: "if used[o.sum] {", with: "if false {", tests: format, run: "Deletion",
		},
		{
			name: "backup: it begins while others are deleted", file: "pkg/backup/work.go",
			old: "if r.fresh(ctx, o) {\n\t\t\treturn fmt.Errorf(\"%w: backups are being", with: "if false {\n\t\t\treturn fmt.Errorf(\"%w: backups are being", tests: format, run: "TestBackupsAndDeletionsExcludeEachOther",
		},
		{
			name: "backup: a chunk that is missing is not copied again", file: "internal/backups/create.go",
			old: "return !t.w.Has(&c)", with: "return false", tests: copies, run: "TestSecondBackupCopiesOnlyNewData",
		},
		{
			name: "backup: what was finished behind a gap is delivered again", file: "internal/backups/restore.go",
			old: "finished = add(finished, is, is+1)", with: "_ = add", tests: copies, run: "TestPlanFinishesFinishedMessages",
		},
		{
			name: "backup: a channel begins behind its first pending message", file: "internal/backups/restore.go",
			old: "found, floor = true, is\n", with: "found, floor = true, is+1\n", tests: copies, run: "TestPlanFinishesFinishedMessages",
		},
	}
}

// snapshotMistakes concern metadata restored from a file.
func snapshotMistakes() []mistake {
	tests := []string{"./cmd/brokerd"}
	return []mistake{
		{
			name: "process: a node that opens does not reload its certificates", file: "cmd/brokerd/process.go",
			old: "case <-hangup:\n\t\t\tlater = true\n\t\t\tp.refreshCredentials()", with: "case <-hangup:\n\t\t\tlater = true",
			tests: tests, run: "ReloadedWhileTheNodeOpens",
		},
		{
			name: "snapshot: that of another cluster is taken", file: "cmd/brokerd/recover.go",
			old: `if want != "" && want != is {`, with: "if false {", tests: tests, run: "Snapshot",
		},
		{
			name: "snapshot: it replaces metadata that is well", file: "pkg/cluster/recover.go",
			old: "\tcase err == nil:\n\t\treturn nil, ErrMetadataThere\n", with: "", tests: tests, run: "Snapshot",
		},
		{
			name: "snapshot: topics made afterwards may be taken for older ones", file: "pkg/meta/raftstore/seed.go",
			old: "state.Index() + seededEntries", with: "state.Index()", tests: tests, run: "Snapshot",
		},
	}
}

// rollingMistakes are about when a rolling restart continues.
func rollingMistakes() []mistake {
	tests := []string{"./internal/rolling"}
	return []mistake{
		{
			name: "relay: what a leader that is replaced sent is handed over", file: "pkg/consume/subscription.go",
			old: "; t != s.known {", with: "; t != s.known && t == nil {", tests: []string{"./pkg/broker"}, run: "TestClientGetsNothingFromReplacedLeader",
		},
		{
			name: "datadir: topics of another disk count as synced", file: "pkg/datadir/journal.go",
			old: "	if d.onOneDisk() {", with: "	if d.onOneDisk() || true {", tests: []string{"./pkg/datadir"},
		},
		{
			name: "rolling: a node goes while another is drained", file: "internal/rolling/plan.go",
			old: "case n.Intent == api.IntentDrain:", with: "case false:", tests: tests, run: "Fit|TestConcurrentRunsStop",
		},
		{
			name: "rolling: two runs restart one node", file: "internal/rolling/run.go",
			old: "if err == nil && rival != nil {", with: "if err == nil && rival != nil && rival.Begun.IsZero() {", tests: tests, run: "TestOneOfTwoRunsRestartsANode",
		},
		{
			name: "rolling: a drain that was cancelled stops later runs", file: "internal/rolling/record.go",
			old: "strings.HasSuffix(a.Verb, \"/undrain\")", with: "strings.HasSuffix(a.Verb, \"/undrained\")", tests: tests, run: "TestOneOfTwoRunsRestartsANode",
		},
		{
			name: "rolling: a reason that it does not know counts for nothing", file: "internal/rolling/plan.go",
			old: "if slices.Contains(harmless, r.Code) ||", with: "if !slices.Contains(expected, r.Code) ||", tests: tests, run: "Fit",
		},
		{
			name: "rolling: a node that has not come up again is back", file: "internal/rolling/run.go",
			old: "case n.Incarnation == before.Incarnation:", with: "case n.Incarnation < before.Incarnation:", tests: tests, run: "Stops|TestNextNodeWaitsForPreviousOne",
		},
		{
			name: "rolling: the next node goes while replicas are behind", file: "internal/rolling/plan.go",
			old: "if !p.InSync && !p.Adding", with: "if p.InSync && !p.InSync && !p.Adding", tests: tests, run: "TestNextNodeWaitsForPreviousOne|Stops",
		},
		{
			name: "rolling: a drain stays when the node is not restarted", file: "internal/rolling/run.go",
			old: "return r.stopped(ctx, StepDrain, err, r.takeBack(ctx))", with: "return r.stopped(ctx, StepDrain, err, r.drained())", tests: tests, run: "TestConcurrentRunsStop",
		},
	}
}

// onDiskMistakes concern what a start makes durable after a kill.
func onDiskMistakes() []mistake {
	return []mistake{
		{
			name: "a leadership that goes round is not looked for while the metadata rests for a moment", file: "pkg/host/notled.go",
			old: "rest := now.Sub(w.changed) > racesEnd", with: "rest := now.Sub(w.changed) > 0",
			tests: []string{"./pkg/host"}, run: "TestEpochRaceIsSeenAfterLongRest",
		},
		{
			name: "a replica that was marked as suspect at an earlier start is not", file: "pkg/host/suspect.go",
			old: "return slices.Contains(names, datadir.MarkSuspect), nil", with: "return false, nil",
			tests: []string{"./pkg/host"}, run: "TestReplicaIsMarked",
		},
		{
			name: "a replica whose log was cut at this start is not suspect", file: "pkg/host/suspect.go",
			old: "	if r.Clean() {", with: "	if r.Clean() || len(names) > 0 {",
			tests: []string{"./pkg/host"}, run: "TestReplicaIsMarked",
		},
		{
			name: "what a start wrote again counts as on disk though the sync of all failed", file: "pkg/redo/replay.go",
			old: "if y.report.NotAtOnce == nil {", with: "if true {", tests: []string{"./pkg/redo"}, run: "TestStartSyncsEachFile",
		},
		{
			name: "a start that syncs all at once does not", file: "pkg/redo/replay.go",
			old: "y.report.NotAtOnce = y.volume.Sync()", with: "y.report.NotAtOnce = nil", tests: []string{"./pkg/redo"},
		},
		{
			name: "redo: a half counts as settled though the sync of the volume failed", file: "pkg/redo/settle.go",
			old: "case err := <-volume:\n			if err == nil {\n				return nil\n			}\n			// The", with: "case <-volume:\n			return nil\n			// The",
			tests: []string{"./pkg/redo"}, run: "TestSettle",
		},
		{
			name: "redo: a half is settled without a sync of the volume", file: "pkg/redo/settle.go",
			old: "err := v.Sync()", with: "err := error(nil)", tests: []string{"./pkg/redo"},
		},
		{
			name: "a log that is opened after the start counts as on disk", file: "pkg/host/open.go",
			old: "n.roles.onDisk.Store(false)", with: "n.roles.onDisk.Load()",
			tests: []string{"./pkg/broker"}, run: "TestLogOpenedLaterIsSynced",
		},
		{
			name: "a log counts as on disk though it was not synced", file: "pkg/commitlog/recovery.go",
			old: "return a.synced || a.noted", with: "return !a.synced || a.noted",
			tests: []string{"./pkg/commitlog"}, run: "TestDataLeftByKillIsSyncedBeforeItCountsAsDurable|TestShortLogOpensCheaplyAfterKill",
		},
		{
			name: "zeros behind a batch end the search for proof in later segments", file: "pkg/commitlog/analyse.go",
			old: "if i+1 == len(a.segments) { // mostly", with: "if true { // mostly",
			tests: []string{"./pkg/commitlog"}, run: "TestZerosBeforeLaterSegmentAreDamage",
		},
	}
}
