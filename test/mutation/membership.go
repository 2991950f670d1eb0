package main

// membershipMistakes are about who is in sync.
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
			old: "case n.Incarnation != c.JoinerIncarnation:", with: "case false:",
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
