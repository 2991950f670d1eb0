package main

// raftMistakes are about how the metadata's Raft group is used.
func raftMistakes() []mistake {
	store, config := []string{"./pkg/meta/raftstore"}, []string{"./internal/config"}
	return []mistake{
		{
			name: "raft: what frees space waits for space", file: "pkg/meta/raftstore/shortage.go",
			old: "frees && r.takes(bytes)", with: "false", tests: store, run: "TestFreeingCommandsAreAcceptedOnReserve",
		},
		{
			name: "raft: the whole reserve of the disk is released at once", file: "pkg/meta/raftstore/reserve.go",
			old: "next := max(0, left-r.step())", with: "next := int64(0)", tests: store, run: "InSteps",
		},
		{
			name: "raft: a full disk purges nothing that the metadata has not recorded", file: "pkg/host/disk.go",
			old: "\t\td.recordDisk(ctx, self, full)\n", with: "\t\td.recordDisk(ctx, self, full)\n\t\treturn\n", tests: []string{"./pkg/host"}, run: "TestFullDiskPurgesIfMetadataCannotRecordIt",
		},
		{
			name: "raft: a full disk leaves nothing for votes", file: "pkg/meta/raftstore/reserve.go",
			old: "return room >= min(floorSteps*r.step(), r.size/4)+int64(bytes)*writtenPerByte", with: "return room >= 0", tests: store, run: "TestFreeingCommandsAreAcceptedOnReserve|Quota",
		},
		{
			name: "raft: no barrier follows what was applied", file: "pkg/meta/raftstore/store.go",
			old: "s.machine.onApply = s.announcer.applied", with: "_ = s.announcer.applied", tests: store, run: "Promptly|Barrier",
		},
		{
			name: "raft: a node without followers appends barriers", file: "pkg/meta/raftstore/announce.go",
			old: "s.IsLeader() && len(s.raft.GetConfiguration().Configuration().Servers) > 1", with: "s.IsLeader()", tests: store, run: "Barrier",
		},
		{
			name: "raft: a barrier that was refused is forgotten", file: "pkg/meta/raftstore/announce.go",
			old: "	case <-time.After(announceAgain):\n		a.applied()\n", with: "	case <-time.After(announceAgain):\n", tests: store, run: "TestDamagedIdentityIsRefused|TestDirectoryOfAnotherNodeIsRefused|TestInvalidForwardedCommandsAreRefused|TestRefusedBarrierIsDueAgain",
		},
		{
			name: "raft: a pipeline that is stuck stays so", file: "pkg/meta/raftstore/transport.go",
			old: "stuck := time.AfterFunc(p.acceptTimeout, func() { _ = p.Close() })\n\tdefer stuck.Stop()\n", with: "", tests: store, run: "Stuck",
		},
		{
			name: "raft: the backoff of a member that is back is waited for", file: "pkg/meta/raftstore/transport.go",
			old: "\t\tt.awaitReturn(id, target, answer)", with: "\t\t_ = answer", tests: store, run: "TestReturningMemberCatchesUpAtOnce",
		},
		{
			name: "raft: a leader whose disk is stalled sends heartbeats", file: "pkg/meta/raftstore/transport.go",
			old: "if t.stalled(time.Now()) > stalledAfter {\n\t\treturn errStalled", with: "if t.stalled(time.Now()) > 1000*stalledAfter {\n\t\treturn errStalled",
			tests: store, run: "TestLeaderWithStalledDiskIsReplaced",
		},
		{
			name: "raft: a leader lease beyond the heartbeat timeout is accepted", file: "internal/config/check.go",
			old: "o.Raft.Lease <= o.HeartbeatTimeout()", with: "o.Raft.Lease > 0", tests: config,
		},
	}
}
