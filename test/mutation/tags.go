package main

import "slices"

// tagMistakes concern consumers that request only some messages.
func tagMistakes() []mistake {
	return append(filterMistakes(), []mistake{
		{
			name: "messages of other lots are delivered", file: "pkg/topic/tags.go",
			old: "return lot, lot == k.tags.Of(k.o.Tag)", with: "return lot, true",
			tests: []string{"./pkg/topic"}, run: "TestBusyTaggedConsumer",
		},
		{
			name: "no consumer is woken for what was sorted", file: "pkg/topic/tags.go",
			old: "return m.lot == lot })", with: "return m.lot != lot })",
			tests: []string{"./pkg/topic"}, run: "TestConsumerIsWokenForMessages",
		},
		{
			name: "what waits for a tag is lost to others when no consumer asks for it", file: "pkg/topic/tags.go",
			old: "	channel.SortingOf(c.state).Merge()\n", with: "",
			tests: []string{"./pkg/topic"}, run: "TestTagWithoutAConsumer",
		},
		{
			name: "a sample leaves out what is another's", file: "pkg/topic/consumer.go",
			old: "if len(k.tags) == 0 && !sampled(", with: "if !sampled(",
			tests: []string{"./pkg/topic"}, run: "TestFilteredMessageOfAKeyIsFinishedForAll|TestUnselectedMessagesAreFinished",
		},
		{
			name: "filters choose everything", file: "pkg/topic/consumer.go",
			old: " || !k.o.Filter.Match(d.Header) {", with: " {",
			tests: []string{"./pkg/topic"}, run: "TestFilteredMessageOfAKeyIsFinishedForAll|TestUnselectedMessagesAreFinished",
		},
		{
			name: "the wish for a tag does not reach the leader", file: "pkg/consume/subscribe.go",
			old: "Tag: s.ask.Tag, Filter:", with: "Tag: \"\", Filter:",
			tests: []string{"./pkg/broker"}, run: "TestRemoteConsumerGetsSelectedMessages",
		},
		{
			name: "sorting has no bound", file: "pkg/channel/lots.go",
			old: "l.s.lot != 0 && l.Len() >= MaxSorted", with: "false",
			tests: []string{"./pkg/channel"}, run: "TestSortingIsBounded",
		},
		{
			name: "an ordered channel goes past the message of another lot", file: "pkg/channel/state.go",
			old: "|| m.due > 0 && Lot(m.due) != s.lot {", with: "{",
			tests: []string{"./pkg/channel"}, run: "TestOrderedChannelWaits",
		},
	}...)
}

// filterMistakes are about channels that get a part of the messages.
func filterMistakes() []mistake { return append(expressionMistakes(), selectionMistakes()...) }

// expressionMistakes concern the syntax and the variables of filter expressions.
func expressionMistakes() []mistake {
	pure := []string{"./pkg/filter"}
	return []mistake{
		{
			name: "filter: ranges are allowed", file: "pkg/filter/rules.go",
			old: "	case \"..\":", with: "	case \"never\":",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: a publisher writes the regular expression", file: "pkg/filter/rules.go",
			old: "_, constant := n.Right.(*ast.StringNode); !constant", with: "_, constant := n.Right.(*ast.StringNode); !constant && false",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: texts are put together", file: "pkg/filter/rules.go",
			old: "if !numeric(n.Left) && !numeric(n.Right) {", with: "if false {",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: an expression has no bound", file: "pkg/filter/filter.go",
			old: "case len(text) > MaxText:", with: "case false:",
			tests: pure, run: "TestInvalid",
		},
		{
			name: "filter: large numbers are taken for their neighbours", file: "pkg/filter/header.go",
			old: "	d.UseNumber()\n", with: "",
			tests: pure, run: "TestExpressionsSelectMessages",
		},
		{
			name: "filter: a header may be followed by another", file: "pkg/filter/header.go",
			old: "!errors.Is(err, io.EOF)", with: "false && !errors.Is(err, io.EOF)",
			tests: pure, run: "TestHeaderIsOneObject",
		},
	}
}

// selectionMistakes concern the outcome of messages that a filter chooses or skips.
func selectionMistakes() []mistake {
	pure, shell := []string{"./pkg/filter"}, []string{"./pkg/topic"}
	return []mistake{
		{
			name: "filter: what was taken before passes", file: "pkg/filter/selection.go",
			old: "if c == nil || c.filter == nil {", with: "if c == nil || c.filter == nil || m.Attempts > 1 {",
			tests: shell, run: "TestMessageThatTimesOut",
		},
		{
			name: "filter: what is left out is not counted", file: "pkg/filter/selection.go",
			old: "		s.left.Add(1)\n", with: "",
			tests: pure, run: "TestSelection",
		},
		{
			name: "filter: it chooses everything", file: "pkg/topic/consumer.go",
			old: "if !k.ch.Selection.All() && !selected(k, &d) {", with: "if false {",
			tests: shell, run: "TestChannelGetsMessagesThatItsFilterSelects",
		},
		{
			name: "filter: what an operator sends is left out", file: "pkg/topic/tags.go",
			old: "if k.address != nil && (!k.address.Moves || k.address.Chosen) {", with: "if false {",
			tests: shell, run: "TestFilterIgnoresOperatorsMessages",
		},
		{
			name: "filter: a moved message passes", file: "pkg/topic/tags.go",
			old: "if k.address != nil && (!k.address.Moves || k.address.Chosen) {", with: "if k.address != nil {",
			tests: shell, run: "TestFilterIgnoresOperatorsMessages",
		},
		{
			name: "filter: leaving out goes on without an end", file: "pkg/topic/consumer.go",
			old: "if rounds >= takeRounds {", with: "if false {",
			tests: shell, run: "TestLongSkipIsInterrupted",
		},
		{
			name: "filter: a broken one is ignored", file: "pkg/topic/consumer.go",
			old: "c.Selection.Broken() != nil || ", with: "",
			tests: shell, run: "TestInvalidFilterDeliversNothing",
		},
		{
			name: "filter: dead letters are all chosen", file: "pkg/deadletter/redrive.go",
			old: "return o, s.Filter == nil || o.chosen(s.Filter, &seen.Message)", with: "return o, true",
			tests: []string{"./pkg/deadletter"}, run: "TestFilterOfDeadLetters",
		},
	}
}

// keyMistakes are about channels that order by key.
func keyMistakes() []mistake {
	return slices.Concat(lineMistakes(), keyedMistakes(), scanMistakes(), confirmationMistakes())
}

// lineMistakes concern the order of messages by key.
func lineMistakes() []mistake {
	lines := []string{"./pkg/keyorder"}
	return []mistake{
		{
			name: "keys: anybody in a line may go", file: "pkg/keyorder/lines.go",
			old: "return !l.In(m) || l.next(&l.lines[l.members[m].line]) == m", with: "return true", tests: lines, run: "Model",
		},
		{
			name: "keys: the first goes while another of its line is out", file: "pkg/keyorder/lines.go",
			old: "if q.out > 0 {", with: "if q.out > 1 {", tests: lines, run: "Model",
		},
		{
			name: "keys: what is remembered has no bound", file: "pkg/keyorder/lines.go",
			old: "return l.tracked >= l.limits.Tracked || l.bytes >= l.limits.Bytes", with: "return l.bytes >= l.limits.Bytes", tests: lines, run: "Model",
		},
		{
			name: "keys: long keys have no bound", file: "pkg/keyorder/lines.go",
			old: " || l.bytes >= l.limits.Bytes }", with: " }", tests: lines, run: "Model",
		},
	}
}

const keyedFile = "pkg/channel/keyed.go"

// keyedMistakes concern a channel's state of keys.
func keyedMistakes() []mistake {
	state := []string{"./pkg/channel"}
	return []mistake{
		{
			name: "keys: the channel looks ahead without a bound", file: keyedFile,
			old: "k.s.keyed.scanned < end && !k.s.keyed.lines.Full()", with: "k.s.keyed.scanned < end", tests: state, run: "TestLookAheadIsBounded",
		},
		{
			name: "keys: a message is delivered before its key is known", file: keyedFile,
			old: "return m.offset < k.scanned", with: "return true", tests: state, run: "OrderOfTheLog",
		},
		{
			name: "keys: what was in flight before holds back no message", file: keyedFile,
			old: "lines.Out(slot) // since", with: "_ = slot // since", tests: state, run: "WhenOrderBegins",
		},
		{
			name: "keys: messages go before the keys of what is in flight are known", file: keyedFile,
			old: "fence = max(fence, m.offset+1)", with: "fence = max(fence, 0)", tests: state, run: "WhenOrderBegins",
		},
		{
			name: "keys: a held message lets the next of its key go", file: "pkg/channel/hold.go",
			old: "\ttakenOut(l, slot) // it stays so\n", with: "", tests: state, run: "OrderOfTheLog|TestHeldMessageDelaysEarlierOnes",
		},
		{
			name: "keys: what is gone holds its key for ever", file: "pkg/channel/ledger.go",
			old: "\tdepart(l, slot)\n", with: "", tests: state, run: "OrderOfTheLog",
		},
		{
			name: "keys: what waits for other tags is enough", file: keyedFile,
			old: "s.ready-SortingOf(s).Len() < wanted", with: "s.ready < wanted", tests: state, run: "KeysAreLearned",
		},
		{
			name: "keys: a message that is sorted does not wait for its key", file: "pkg/channel/lots.go",
			old: "if bar(&s.ledger, slot) {", with: "if false {", tests: state, run: "SortingKeeps",
		},
		{
			name: "keys: a message with a key is carried forward", file: "pkg/channel/stragglers.go",
			old: "return slices.DeleteFunc(list, func(m Pending) bool { return KeyedOf(s).Binds(m.Offset) })", with: "return slices.Clone(list)", tests: state, run: "Stragglers",
		},
	}
}

// scanMistakes concern scanning for keys.
func scanMistakes() []mistake {
	shell := []string{"./pkg/topic"}
	return []mistake{
		{
			name: "keys: what is ready waits until many keys are read", file: "pkg/topic/keyscan.go",
			old: "\t\twanted = 1\n", with: "", tests: shell, run: "TestReadyMessagesDoNotWaitForKeys",
		},
		{
			name: "keys: a take of none leaves them unread, and is woken for them", file: "pkg/topic/keyscan.go",
			old: "\twanted = max(wanted, 1)\n", with: "", tests: shell, run: "TestTakeOfZeroReadsKeys",
		},
		{
			name: "keys: keys that another consumer read are not used", file: "pkg/topic/consumer.go",
			old: "if c.keys.unreadLocked(c) {", with: "if false {", tests: shell, run: "TestConsumerWaitingForKeysIsWoken",
		},
		{
			name: "keys: who has no room keeps others from reading keys", file: "pkg/topic/consumer.go",
			old: "\t\t\t\tc.waiting.remove(k)\n", with: "", tests: shell, run: "TestFullConsumerLeavesKeysToAnother",
		},
		{
			name: "keys: the memory for reading them is held without a reader", file: "pkg/topic/joining.go",
			old: "\t\tc.keys.releaseLocked()\n", with: "", tests: shell, run: "TestKeysHoldNothingWithoutConsumer",
		},
		{
			name: "keys: what is damaged has none though others hold it", file: "pkg/reading/keys.go",
			old: "errors.As(err, &damaged) && elsewhere(damaged):", with: "errors.As(err, &damaged) && from > end:", tests: shell, run: "TestDamagedKeysAreLeftToIntactReplica",
		},
	}
}

// confirmationMistakes are about finishes that others have to know of.
func confirmationMistakes() []mistake {
	state, shell := []string{"./pkg/channel"}, []string{"./pkg/topic"}
	return []mistake{
		{
			name: "keys: the finish of a key counts at once", file: keyedFile,
			old: "return KeyedOf(s).Binds(o)\n}", with: "return false\n}", tests: shell, run: "NextOfAKey",
		},
		{
			name: "keys: a message without a key waits for others", file: keyedFile,
			old: "return o >= s.keyed.scanned || ok && s.keyed.lines.In(slot)", with: "_, _ = slot, ok\n\treturn true", tests: shell, run: "NextOfAKey",
		},
		{
			name: "keys: a channel begins before everyone in sync knows where", file: "pkg/topic/consumer.go",
			old: "channel.Order(c.state).Some() && c.p.apart.Load()", with: "channel.Order(c.state) == \"strict\" && c.p.apart.Load()", tests: shell, run: "NextOfAKey",
		},
		{
			name: "keys: what a consumer does not choose is finished here alone", file: "pkg/topic/keyscan.go",
			old: "!c.ephemeral && channel.KeyedOf(c.state).Binds(o) && ", with: "c == nil && ", tests: shell, run: "FinishedForAll",
		},
		{
			name: "keys: what a consumer does not choose counts as delivered", file: "pkg/channel/hold.go",
			old: "\tm.attempts--\n\ts.delivered--\n", with: "\tm.attempts--\n", tests: state, run: "TestSkippedMessagesAreNotCounted",
		},
		{
			name: "keys: what a consumer does not choose counts as finished", file: "pkg/channel/hold.go",
			old: "if l.t.slots[slot].owner >= 0 {", with: "if true {", tests: state, run: "TestSkippedMessagesAreNotCounted",
		},
		{
			name: "keys: what a consumer does not choose spends the rate", file: "pkg/topic/consumer.go",
			old: "len(u.gone) + len(u.left) + len(u.expired) + len(u.back) +", with: "len(u.gone) + len(u.back) +", tests: shell, run: "TestUnselectedMessagesAreNotCounted",
		},
		{
			name: "keys: a long requeue is appended again", file: "pkg/topic/mover.go",
			old: "state == channel.Finished || ordered || ", with: "state == channel.Finished || ordered && false || ", tests: shell, run: "LongRequeue",
		},
		{
			name: "finishes: each is sent alone", file: "pkg/channel/finishing.go",
			old: "min(len(l.list), MaxGroup)", with: "min(len(l.list), 1)", tests: shell, run: "TestFinishesAreSharedTogether",
		},
		{
			name: "finishes: what was given up counts", file: "pkg/channel/finishing.go",
			old: "return f.over })", with: "return false })", tests: state, run: "TestConcurrentFinishesAreSharedTogether",
		},
		{
			name: "finishes: what was given up is noted", file: "pkg/topic/finishing.go",
			old: "if len(waited) < len(f.list) {", with: "if false {", tests: shell, run: "TestAbandonedFinishIsNotRecorded",
		},
		{
			name: "finishes: each group takes more of the stack", file: "pkg/topic/finishing.go",
			old: "next = next.replicated(c, nil)\n", with: "next.replicated(c, nil).send(c)\n\t\treturn\n", tests: shell, run: "TestManyFinishesDoNotGrowStack",
		},
		{
			name: "finishes: a follower takes the first of several", file: "pkg/advance/advance.go",
			old: "for len(r.Rest) > 0 || len(all) == 0 {", with: "for len(all) == 0 {", tests: []string{"./pkg/advance"}, run: "TestChangesAreConcatenated",
		},
	}
}

// joiningMistakes concern consumers that come as others leave, or as a leadership ends.
func joiningMistakes() []mistake {
	return []mistake{
		{
			name: "ephemeral: a consumer does not get the channel that the last one is deleting", file: "pkg/consume/subscribe.go",
			old: "case !c.Ephemeral() || !errors.Is(err, failure.ChannelNotFound):", with: "case c != nil:",
			tests: []string{"./pkg/broker"}, run: "TestEphemeralChannelIsJoinedWhileItsLastConsumerLeaves",
		},
		{
			name: "subscription: a repeated one joins a partition twice", file: "pkg/consume/subscribe.go",
			old: "if s.Sources.Load().takes(lp.Part) {", with: "if s.Sources.Load().takes(nil) {",
			tests: []string{"./pkg/broker"}, run: "TestSubscriptionOutlastsLostLeadership",
		},
		{
			name: "subscription: it fails with the leadership of one partition", file: "pkg/consume/subscribe.go",
			old: "case errors.Is(err, host.ErrLedElsewhere):", with: "case c == nil:",
			tests: []string{"./pkg/broker"}, run: "TestSubscriptionOutlastsLostLeadership",
		},
		{
			name: "rate: the partitions of a channel that was created again do not share one", file: "pkg/policy/rates.go",
			old: "if !exists() {", with: "if exists != nil {", tests: []string{"./pkg/policy"}, run: "TestRateOfChannelThatExistsAgainStays",
		},
		{
			name: "rate: that of each deleted ephemeral channel stays in memory", file: "pkg/consume/subscription.go",
			old: "		return slices.ContainsFunc(h.AllLed(), func(lp *host.Led) bool { return lp.Part.Channel(channel) != nil })", with: "		return true",
			tests: []string{"./pkg/broker"}, run: "TestRateOfEphemeralChannelEndsWithIt",
		},
	}
}

// deliveryMistakes concern rare moments of deliveries: a requeue that is recorded late, a message that is
// moved, a channel that replaces another.
func deliveryMistakes() []mistake {
	return []mistake{
		{
			name: "requeue: a record that comes late ends a later requeue", file: "pkg/channel/retry.go",
			old: " || s.t.slots[slot].taken != s.nanos(parked)", with: "",
			tests: []string{"./pkg/channel"}, run: "TestLateResumeDoesNotEndLaterPark",
		},
		{
			name: "deferrals: a copy that is deferred for long is not packed", file: "pkg/channel/move.go",
			old: "putOff(s, slot, nanos, addTime(nanos, c.Rest))", with: "s.t.intoDeferred(slot, nanos, addTime(nanos, c.Rest))\n\t\ts.deferred++",
			tests: []string{"./pkg/channel"}, run: "TestMovedMessagesArePacked",
		},
		{
			name: "dead letters: that of a message that was moved is another one", file: "pkg/deadletter/worker.go",
			old: "uint64(e.Origin)}", with: "uint64(e.ID.Offset())}",
			tests: []string{"./pkg/deadletter"}, run: "TestLetterOfMovedMessageHasTheSameID",
		},
		{
			name: "dead letters: a message does not name what it replaces", file: "pkg/topic/exhausted.go",
			old: "if k.address != nil && k.address.Moves {", with: "if false {",
			tests: []string{"./pkg/topic"}, run: "TestExhaustedMessageNamesWhatItReplaces",
		},
		{
			name: "restore: a channel that replaces a deleted one does not get what is addressed to that", file: "pkg/operate/history.go",
			old: ", Restores: v.Version}", with: "}",
			tests: []string{"./pkg/broker"}, run: "TestReplacingChannelHasLongRequeuedMessages",
		},
		{
			name: "restore: a channel that replaces a deleted one loses what is addressed to it", file: "pkg/topic/arrivals.go",
			old: "return to == c.version || to == c.address.Load()", with: "return to == c.address.Load() || c.address.Load() == 0 && to == c.version",
			tests: []string{"./pkg/broker"}, run: "TestReplacingChannelHasLongRequeuedMessages",
		},
		{
			name: "filter: what an operator sent is skipped after a long requeue", file: "pkg/record/copy.go",
			old: "m.Address.Timestamp, !m.Address.Moves || m.Address.Chosen", with: "m.Address.Timestamp, false",
			tests: []string{"./pkg/topic"}, run: "TestFilterIgnoresOperatorsMessages",
		},
		{
			name: "filter: what an operator sent is skipped after a second long requeue", file: "pkg/record/copy.go",
			old: "m.Address.Timestamp, !m.Address.Moves || m.Address.Chosen", with: "m.Address.Timestamp, !m.Address.Moves",
			tests: []string{"./pkg/topic"}, run: "TestFilterIgnoresOperatorsMessages",
		},
		{
			name: "deferrals: a copy takes back that an operator advanced its message", file: "pkg/channel/move.go",
			old: " && m.delayed != advanced", with: "",
			tests: []string{"./pkg/channel"}, run: "TestAdvancedMessageStaysReady",
		},
		{
			name: "settings: a large negative number of milliseconds becomes a time", file: "pkg/admin/v1/config.go",
			old: "*d.ms < 0 || *d.ms > math", with: "*d.ms > math",
			tests: []string{"./pkg/admin"}, run: "TestTrashRetention",
		},
	}
}
