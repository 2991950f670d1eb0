package main

// addressedMistakes are about messages for one channel, and those that move.
func addressedMistakes() []mistake {
	topic, channel := []string{"./pkg/topic"}, []string{"./pkg/channel"}
	return []mistake{
		{
			name: "addressed: every channel gets what is for one", file: "pkg/topic/arrivals.go",
			old: "case !isFor(a.to.Channel, c):", with: "case false:", tests: topic, run: "Addressed|Origin|Leader",
		},
		{
			name: "addressed: a channel that is led back gets what is not its own", file: "pkg/topic/consumer.go",
			old: "k.address != nil && !isFor(k.address.Channel, k.ch)", with: "false", tests: topic, run: "Addressed",
		},
		{
			name: "addressed: others peek at what is for one", file: "pkg/topic/peek.go",
			old: "m.Address != nil && !isFor(m.Address.Channel, c)", with: "false", tests: topic, run: "Addressed",
		},
		{
			name: "addressed: a copy does not finish its origin", file: "pkg/topic/arrivals.go",
			old: "case a.to.Moves:", with: "case false:", tests: topic, run: "Copy|NextLeader",
		},
		{
			name: "addressed: the next leader does not look for copies", file: "pkg/topic/arrivals.go",
			old: "a.found, a.served = found, true", with: "a.found, a.served = found[:0], true", tests: topic, run: "NextLeader|TestNothingIsDeliveredBeforeCopiesAreResolved",
		},
		{
			name: "addressed: the next leader does not know what is deferred", file: "pkg/topic/arrivals.go",
			old: "attrAddressed|attrDeferred, found)", with: "attrAddressed, found)", tests: topic, run: "NextLeaderKnows",
		},
		{
			name: "addressed: what is deferred and not committed is forgotten", file: "pkg/topic/arrivals.go",
			old: "	if !a.unnotified(false) {\n", with: "	if !a.unnotified(true) {\n", tests: topic, run: "TestUncommittedDeferralDelaysNothing",
		},
		{
			name: "addressed: what is deferred and not committed keeps the others back", file: "pkg/topic/arrivals.go",
			old: "	a.unsure.Store(a.unnotified(true))\n}", with: "	a.unsure.Store(a.unnotified(false))\n}", tests: topic, run: "TestUncommittedDeferralDelaysNothing",
		},
		{
			name: "addressed: messages are delivered before it is known which copies count", file: "pkg/topic/consumer.go",
			old: "c.p.arrivals.unsure.Load() || ", with: "", tests: topic, run: "TestNothingIsDeliveredBeforeCopiesAreResolved",
		},
		{
			name: "addressed: no consumer is woken when it is known which copies count", file: "pkg/topic/arrivals.go",
			old: "\tif was {\n\t\tp.Wake()", with: "\tif was && p == nil {\n\t\tp.Wake()", tests: topic, run: "TestNothingIsDeliveredBeforeCopiesAreResolved",
		},
		{
			name: "addressed: the log is looked through from further and further back", file: "pkg/topic/arrivals.go",
			old: "at-a.noted >= addressedWithin || ", with: "", tests: topic, run: "PublishesAlone",
		},
		{
			name: "addressed: a copy of what was finished meanwhile is delivered", file: "pkg/channel/move.go",
			old: "case !tracked && finished && !c.Inherited:", with: "case false:", tests: channel, run: "Model",
		},
		{
			name: "addressed: a copy of what another leader finished is lost", file: "pkg/channel/move.go",
			old: "finished && !c.Inherited:", with: "finished:", tests: channel, run: "Model",
		},
		{
			name: "addressed: a copy that is known is met again", file: "pkg/channel/move.go",
			old: "	if s.known(c.To) {\n\t\treturn", with: "	if false {\n\t\treturn", tests: channel, run: "Model",
		},
		{
			name: "addressed: a consumer cannot answer by the id that it knows", file: "pkg/channel/ledger.go",
			old: "l.t.index.get(l.t.names.standing(o))", with: "l.t.index.get(o)", tests: channel, run: "Moved|Model",
		},
		{
			name: "addressed: the old id counts after a timeout", file: "pkg/channel/tracked.go",
			old: "t.names.drop(m.offset)", with: "_ = m.offset", tests: channel, run: "Moved|Model",
		},
	}
}

// moveMistakes are about messages that are appended again in place of the originals.
func moveMistakes() []mistake {
	topic, channel := []string{"./pkg/topic"}, []string{"./pkg/channel"}
	return []mistake{
		{
			name: "moves: a message for another channel is appended again", file: "pkg/topic/mover.go",
			old: "if m.Address != nil && isFor(m.Address.Channel, from.c) {", with: "if m.Address != nil {",
			tests: topic, run: "TestMessageForAnotherChannelIsNotAppendedAgain",
		},
		{
			name: "moves: a short delay is appended again", file: "pkg/topic/mover.go",
			old: "delay <= most || ", with: "", tests: topic, run: "LongRequeue",
		},
		{
			name: "moves: a message that has had all its attempts is appended again", file: "pkg/topic/mover.go",
			old: "return moving{c, o, due}, deferred", with: "return moving{c, o, due}, deferred || true", tests: topic, run: "TestOrderedAndEphemeralRequeuesAreNotAppendedAgain",
		},
		{
			name: "moves: copies are made while the topic is paused", file: "pkg/topic/mover.go",
			old: " && c.p.pausedAt.Load() == notPaused", with: "", tests: topic, run: "TestOrderedAndEphemeralRequeuesAreNotAppendedAgain",
		},
		{
			name: "moves: a copy is made where there is no room", file: "pkg/topic/mover.go",
			old: "room != nil && !room(messages)", with: "room != nil && false", tests: topic, run: "TestFullConsumerLeavesKeysToAnother|TestNoCopyWithoutDiskSpace",
		},
		{
			name: "moves: a copy restarts its time to live", file: "pkg/record/copy.go",
			old: "m.TTL-age", with: "m.TTL", tests: []string{"./pkg/record"}, run: "Copy",
		},
		{
			name: "moves: a backlog is carried forward", file: "pkg/channel/pending.go",
			old: "	if end > s.cursor {", with: "	if end > s.cursor+1<<40 {", tests: channel, run: "Pending",
		},
		{
			name: "moves: what is deferred comes early when it is carried", file: "pkg/topic/mover.go",
			old: "moving{c, m.Offset, m.Due}", with: "moving{c: c, offset: m.Offset}", tests: topic, run: "Stragglers",
		},
		{
			name: "hidden: what is not visible yet is taken off what waits", file: "pkg/channel/view.go",
			old: "+hidden(&s.ledger, end)", with: "", tests: channel, run: "HiddenMessages|HiddenDeferrals",
		},
		{
			name: "hidden: the number of messages falls", file: "pkg/topic/counts.go",
			old: "max(c.messages, n.Messages)", with: "n.Messages", tests: topic, run: "Hidden",
		},
	}
}
