package main

// membershipMistakes concern the in-sync sets.
func membershipMistakes() []mistake {
	const membership = "pkg/coord/membership.go"
	return []mistake{
		{
			name: "CompareAndSwap: a change applies to any version", file: "pkg/meta/commands_partition.go",
			old: "if version != p.Version {", with: "if version == 1<<63 {",
			tests: metadataTests,
		},
		{
			name: "ShrinkApplied: a member that is to leave does not count", file: "pkg/coord/isr/tracker.go",
			old:   "\tfor _, n := range members {\n\t\tt.member(n).pending = true\n",
			with:  "\tfor i := range t.members {\n\t\tt.members[i].applied = slices.Contains(members, t.members[i].node)\n\t}\n\tfor _, n := range members {\n\t\tt.member(n).pending = true\n",
			tests: membershipTests,
		},
		{
			name: "GrowCounts: a proposed joiner does not count", file: membership,
			old: "\tm.tracker.Propose(c.ISR)\n", with: "",
			tests: membershipTests,
		},
		{
			name: "GrowCounts: a pending member does not count", file: "pkg/coord/isr/tracker.go",
			old: "if !m.applied && !m.pending {", with: "if !m.applied {",
			tests: membershipTests,
		},
		{
			name: "UndecidedCounts: a proposal without an answer is withdrawn", file: membership,
			old: "case fate.Of(err) != fate.Refused:", with: "case err == nil && fate.Of(err) != fate.Refused:",
			tests: membershipTests,
		},
		{
			name: "GrowNeedsLife: metadata takes a joiner that has started again", file: "pkg/meta/commands_partition.go",
			old: "s.started(c.Joiner, c.JoinerIncarnation)", with: "s.found(c.Joiner)",
			tests: metadataTests,
		},
		{
			name: "GrowNeedsLife: a leader proposes a joiner whose session is with an earlier life", file: membership,
			old: "!f.down && f.began == f.incarnation && ", with: "!f.down && ",
			tests: membershipTests,
		},
		{
			name: "GrowNeedsStart: a joiner lacks the start of the term", file: membership,
			old: "f.holds.End >= max(m.tracker.Committed(), m.start)", with: "f.holds.End >= m.tracker.Committed()",
			tests: membershipTests,
		},
		{
			name: "PositionsJoin: a joiner lacks the positions", file: membership,
			old: "r.Ready = f.holds.Shares >= shares && ", with: "_ = shares\n\t\t\tr.Ready = ",
			tests: membershipTests,
		},
	}
}

// upgradeMistakes are about nodes of different releases.
func upgradeMistakes() []mistake {
	state, store := []string{"./pkg/meta"}, []string{"./pkg/meta/raftstore"}
	return []mistake{
		{
			name: "upgrade: the level rises while a node does not support it", file: "pkg/meta/upgrade.go",
			old: "len(lagging) > 0", with: "len(lagging) > len(s.nodes)", tests: state, run: "LevelRises",
		},
		{
			name: "upgrade: the level falls", file: "pkg/meta/upgrade.go",
			old: "c.Level <= s.cluster.Level", with: "c.Level == s.cluster.Level", tests: state, run: "LevelRises",
		},
		{
			name: "upgrade: an older release starts after the level was raised", file: "pkg/meta/commands_cluster.go",
			old: "if err := checkLevel(s.cluster.Level, c.Node.Levels); err != nil {", with: "if err := checkLevel(s.cluster.Level, c.Node.Levels); err != nil && false {",
			tests: state, run: "LevelRises",
		},
		{
			name: "upgrade: a cluster is formed above the level of a node", file: "pkg/meta/commands_cluster.go",
			old: "s.cluster.Level = min(c.Level, Attainable(s))", with: "s.cluster.Level = c.Level", tests: state, run: "IsFormed",
		},
		{
			name: "upgrade: a snapshot of a newer release counts as damaged", file: "pkg/meta/snapshot.go",
			old: "return checkLevel(head.Cluster.Level, level.Supported())", with: "return nil", tests: state, run: "NewerLevel",
		},
		{
			name: "upgrade: an older program goes on after the level was raised", file: "pkg/meta/raftstore/fsm.go",
			old: "if err := meta.CheckLevel(m.state, level.Supported()); err != nil {", with: "if err := meta.CheckLevel(m.state, level.Supported()); err != nil && false {",
			tests: store, run: "OlderProgram",
		},
		{
			name: "upgrade: a snapshot of a newer release is fetched repeatedly", file: "pkg/meta/raftstore/fsm.go",
			old: "m.fail(fmt.Errorf(\"metadata snapshot of the leader: %w\", err)) // it would be sent repeatedly", with: "_ = fmt.Errorf", tests: store, run: "NewerLevel",
		},
		{
			name: "upgrade: an older leader is sent what it refuses", file: "pkg/publish/queue.go",
			old: "if !l.Has(level.ForwardedPublisher) {", with: "if _ = l; false {", tests: []string{"./pkg/publish"}, run: "OlderLeader",
		},
	}
}

// formingMistakes concern which nodes are members, and what is left of dead ones.
func formingMistakes() []mistake {
	return []mistake{
		{
			name: "a node is removed after its decommissioning was cancelled", file: "pkg/meta/commands_cluster.go",
			old: "n.Intent != IntentDecommission && n.State != NodeDown {", with: "n == nil {", tests: []string{"./pkg/meta"}, run: "TestScripts",
		},
		{
			name: "an ephemeral topic of a dead node stays", file: "pkg/cluster/controller/core.go",
			old: "d.Commands = c.lost(s, d.Troubles, now)", with: "_ = c.lost(s, d.Troubles, now)",
			tests: []string{"./pkg/cluster/controller"}, run: "TestEphemeralTopicOfDeadNodeIsDeleted",
		},
		{
			name: "a node without data needs the file of its join token", file: "pkg/cluster/formation/node.go",
			old: "if errors.Is(err, fs.ErrNotExist) { // the file", with: "if false && errors.Is(err, fs.ErrNotExist) { // the file",
			tests: []string{"./pkg/cluster/formation"}, run: "JoinToken",
		},
		{
			name: "an ephemeral topic of a node that answers is deleted", file: "pkg/cluster/controller/core.go",
			old: "return c.answers(id, now)", with: "return false",
			tests: []string{"./pkg/cluster/controller"}, run: "TestEphemeralTopicOfAnsweringNodeStays",
		},
		{
			name: "an ephemeral topic of a paused node is deleted", file: "pkg/cluster/controller/core.go",
			old: "now.Sub(c.calm) >= ephemeralAfter {", with: "now.Sub(c.calm) >= 0 {",
			tests: []string{"./pkg/cluster/controller"}, run: "TestEphemeralTopicOfDeadNodeIsDeleted",
		},
		{
			name: "a member does not notice that it was to join another cluster", file: "pkg/cluster/formation/member.go",
			old: "if errors.Is(r.err, ErrOtherCluster) {", with: "if false && errors.Is(r.err, ErrOtherCluster) {",
			tests: []string{"./pkg/cluster/formation"}, run: "TestMemberNamesJoinAddressesOfAnotherCluster",
		},
		{
			name: "join token: it admits any node", file: "pkg/access/join.go",
			old: "case t.Node != who.Node:", with: "case false:", tests: []string{"./pkg/access"}, run: "JoinToken",
		},
		{
			name: "join token: a node that lost its data needs none", file: "pkg/cluster/formation/member.go",
			old: "admitted := !who.fresh\n", with: "_, admitted := members.Configuration().Find(who.Node)\n", tests: []string{"./pkg/cluster/formation"}, run: "JoinToken",
		},
	}
}
