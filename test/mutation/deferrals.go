package main

// deferralMistakes concern operators' changes of deferred messages.
func deferralMistakes() []mistake {
	pure, here := []string{"./pkg/channel"}, []string{"./pkg/broker"}
	return []mistake{
		{
			name: "deferrals: an advanced message waits again after a restart", file: "pkg/channel/state.go",
			old: "case d.Delay == 0:", with: "case false:", tests: pure, run: "TestAdvancedAndCancelledMessagesStaySo",
		},
		{
			name: "deferrals: a checkpoint forgets what was advanced", file: "pkg/channel/recorder.go",
			old: "case m.delayed == advanced:", with: "case false:", tests: pure, run: "TestAdvancedAndCancelledMessagesStaySo",
		},
		{
			name: "deferrals: a page that is joined loses when its first message is due", file: "pkg/channel/far.go",
			old: "p.due = min(p.due, was[i+j].due)", with: "p.due = math.MaxInt64", tests: pure, run: "StayFew",
		},
		{
			name: "deferrals: a message is cancelled that is not deferred", file: "pkg/channel/deferrals.go",
			old: "if !ok || s.t.slots[slot].place != deferred || s.t.slots[slot].delayed == byNote {", with: "if !ok {",
			tests: pure, run: "TestStateMatchesModel",
		},
		{
			name: "deferrals: offsets that are far apart are taken for one", file: "pkg/channel/index.go",
			old: "c.low == lowOf(o) && (*x.slots)[c.slot].offset == o", with: "c.low == lowOf(o)", tests: pure, run: "TestDistantOffsetsAreDistinguished",
		},
		{
			name: "deferrals: a deferral that is over counts as advanced", file: "pkg/channel/far.go",
			old: "max(1, subTime(m.due, m.taken))", with: "subTime(m.due, m.taken)", tests: pure, run: "TestDeferralWithoutDelayIsNotAdvanced",
		},
		{
			name: "deferrals: a page repeats the last message of the one before", file: "pkg/channel/deferrals.go",
			old: "due.Equal(page.After) && m.offset < page.From", with: "due.Equal(page.After) && m.offset < page.From-1", tests: pure, run: "ListedByWhenTheyAreDue",
		},
		{
			name: "deferrals: what is far is delivered at once", file: "pkg/channel/ledger.go",
			old: "} else if !l.t.far.has(l.cursor) {", with: "} else {", tests: pure, run: "TestStateMatchesModel",
		},
		{
			name: "deferrals: a checkpoint forgets what is far", file: "pkg/channel/position.go",
			old: "s.t.far.set(s.wall).overlay(", with: "DeferralSet{}.overlay(", tests: pure, run: "TestStateMatchesModel",
		},
		{
			name: "deferrals: what is far is not looked at before it is due", file: "pkg/channel/state.go",
			old: "at, more = min(at, addTime(f.due, -soonOf(&s.ledger))), true", with: "more = true", tests: pure, run: "FarMessagesAreTrackedBefore",
		},
		{
			name: "deferrals: an advanced message waits for its publisher's delay", file: "pkg/topic/operating.go",
			old: "if rest > 0 && (t.Attempts > 1 || advanced(c, t.Offset)) {", with: "if false {", tests: here, run: "CancelledAndAdvanced",
		},
		{
			name: "deferrals: a move of a large position loses the rest of it", file: "pkg/topic/channel.go",
			old: "c.recorder.Restart() // what is known of before the move is not continued\n", with: "", tests: here, run: "TestBulkActsOnDeferredMessagesAffectNoOthers",
		},
		{
			name: "deferrals: a ready message that is not visible blocks those behind it", file: "pkg/channel/aside.go",
			old: "\tfor slot := t.ready.head; slot != 0; slot = t.ready.head {", with: "\tif slot := t.ready.head; slot != 0 {", tests: pure, run: "TestHidden",
		},
		{
			name: "deferrals: a message that was not visible stays aside", file: "pkg/channel/aside.go",
			old: "&& t.aside.least < end {", with: "&& t.aside.least+1 < end {", tests: pure, run: "TestHidden",
		},
	}
}
