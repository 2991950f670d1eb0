package main

import "slices"

// onceMistakes are about dedup ids.
func onceMistakes() []mistake {
	return slices.Concat(switchMistakes(), windowMistakes(), []mistake{
		{
			name: "once: a new leader does not read the ids of its log", file: "pkg/once/keeper.go",
			old: "	return k, k.read(now)", with: "	return k, nil",
			tests: []string{"./pkg/once"},
		},
		{
			name: "dedup: a client can find ids that make searches long", file: "pkg/dedup/hash.go",
			old: "_, _ = rand.Read(key[:])", with: "_ = rand.Reader",
			tests: []string{"./pkg/dedup"}, run: "ShareASlot",
		},
		{
			name: "header: a backslash among eight characters is read as it stands", file: "pkg/header/plain.go",
			old: "|(slash-each)", with: "|(slash&0)",
			tests: []string{"./pkg/header"}, run: "TestEachByte",
		},
		{
			name: "header: a publisher may forge a dead letter", file: "pkg/header/header.go",
			old: "len(k) == len(keyLetter) && bytes.EqualFold(k, []byte(keyLetter)) {", with: "len(k) == len(keyLetter) && bytes.Equal(k, []byte(keyLetter)) {",
			tests: []string{"./pkg/header"}, run: "TestParse",
		},
		{
			name: "once: what is written and not committed is answered as stored", file: "pkg/once/keeper.go",
			old: "if o < k.o.Partition.Log().CommittedEnd() {", with: "if true {",
			tests: []string{"./pkg/once"},
		},
		{
			name: "once: what is written and not confirmed may be written again", file: "pkg/once/keeper.go",
			old: "case r.Written:\n\t\t\twaiting =", with: "case r.Written && r.Err == nil:\n\t\t\twaiting =",
			tests: []string{"./pkg/once"},
		},
		{
			name: "once: a refused publish keeps its ids", file: "pkg/once/keeper.go",
			old: "\t\tdefault:\n\t\t\twaiting = k.window.Release(&e.hashes[i], claim)\n\t\t\tclaim++\n", with: "",
			tests: []string{"./pkg/once"},
		},
		{
			name: "once: a publish of which a part is stored is called refused", file: "pkg/once/keeper.go",
			old: "case written && fate.Of(r.Err) == fate.Refused:", with: "case written && false:",
			tests: []string{"./pkg/once"},
		},
		{
			name: "once: a repetition of another leader's is not awaited", file: "pkg/host/errors.go",
			old: " || errors.Is(err, failure.NoWindow)", with: "",
			tests: []string{"./pkg/broker", "./pkg/publish"}, run: "TestLeaderWithoutDedupWindowRefusesIDsForAWhile|TestLeaderWithoutDedupWindowIsRetried",
		},
		{
			name: "once: finished messages of the window go", file: "pkg/host/retention.go",
			old: "return max(c.RetentionAge, once.Retention(c.DedupWindow))", with: "return max(c.RetentionAge, once.Retention(0))",
			tests: []string{"./pkg/host"}, run: "TestFinishedMessagesAreKeptForDedupWindow",
		},
	})
}

// windowMistakes are about the dedup ids that a partition remembers.
func windowMistakes() []mistake {
	return []mistake{
		{
			name: "once: the index takes one id for another that begins alike", file: "pkg/dedup/table.go",
			old: "c.tag() == tag && t.entry(c.number()).hash == *h", with: "c.tag() == tag",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: an id whose claim does not end is forgotten", file: "pkg/dedup/table.go",
			old: "	if e.at == claimed {\n\t\tt.Add(slot, e)\n\t\treturn false\n\t}\n", with: "",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: a claim is found where it was before it moved", file: "pkg/dedup/table.go",
			old: "if hint-t.head < t.tail-t.head {", with: "if t.head != t.tail {",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: refused publishes take memory", file: "pkg/dedup/table.go",
			old: "case t.gone > n/32:", with: "case false:",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: ids are known for ever", file: "pkg/dedup/window.go",
			old: "case now-e.at < w.lasts:", with: "case e.at <= now:",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: there is no most of ids", file: "pkg/dedup/window.go",
			old: "for w.table.stored > w.most {", with: "for false {",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: an entry that moves is lost", file: "pkg/dedup/table.go",
			old: "if t.home(j-home) >= t.home(j-i) {", with: "if t.home(j-home) > t.home(j-i) {",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: an older entry takes the newer of its id along", file: "pkg/dedup/window.go",
			old: "	if e != nil {\n\t\tw.table.Replace(e)\n", with: "	if false && e != nil {\n",
			tests: []string{"./pkg/dedup"},
		},
		{
			name: "once: ids of other lengths have one hash", file: "pkg/dedup/hash.go",
			old: "binary.LittleEndian.PutUint32(h[:lengthBytes], uint32(len(id)))", with: "binary.LittleEndian.PutUint32(h[:lengthBytes], 0)",
			tests: []string{"./pkg/dedup"}, run: "TestHashesDiffer",
		},
	}
}

// switchMistakes are about a window of dedup ids that is switched off and on.
func switchMistakes() []mistake {
	return []mistake{
		{
			name: "once: a window that is switched off forgets what is under way", file: "pkg/once/switch.go",
			old: " && k.idle() {", with: " {",
			tests: []string{"./pkg/once"}, run: "TestWindowTogglesDuringPublishes",
		},
	}
}

// optionMistakes are about keys and times to live.
func optionMistakes() []mistake {
	return []mistake{
		{
			name: "route: a dedup id without a key chooses no partition", file: "pkg/route/route.go",
			old: "\tcase m.Dedup != nil:\n\t\treturn PartitionOfKey(m.Dedup, t.Partitions), true\n", with: "",
			tests: []string{"./pkg/route"},
		},
		{
			name: "route: a publish of which a part is stored is called refused", file: "pkg/route/gather.go",
			old: "case g.some && fate.Of(out.Err) == fate.Refused:", with: "case false:",
			tests: []string{"./pkg/route"},
		},
		{
			name: "keys: all of a body is looked at", file: "pkg/keys/keys.go",
			old: "if len(body) > maxBody {", with: "if false {",
			tests: []string{"./pkg/keys"},
		},
		{
			name: "keys: a long key is cut", file: "pkg/keys/keys.go",
			old: "if len(key) == 0 || len(key) > maxKey {\n\t\treturn nil\n\t}", with: "if len(key) == 0 {\n\t\treturn nil\n\t}\n\tkey = key[:min(len(key), maxKey)]",
			tests: []string{"./pkg/keys"},
		},
		{
			name: "quota: each partition has all of the topic's", file: "pkg/meta/config.go",
			old: "return c.MaxBytes / int64(max(c.Partitions, 1))", with: "return c.MaxBytes",
			tests: []string{"./pkg/quota"},
		},
		{
			name: "quota: what is published does not count", file: "pkg/quota/disk.go",
			old: "after := stored + int64(topic.StoredSize(messages))", with: "after := stored",
			tests: []string{"./pkg/quota"},
		},
		{
			name: "quota: every refusal asks for room", file: "pkg/quota/disk.go",
			old: "now.UnixNano()-last < int64(tellEvery)", with: "false",
			tests: []string{"./pkg/quota"},
		},
		{
			name: "quota: a log that is to stay small has large files", file: "pkg/host/converge.go",
			old: "commitlog.Bound(hp.Replica.Log(), cmp.Or(limit, share))", with: "commitlog.Bound(hp.Replica.Log(), 0*cmp.Or(limit, share))",
			tests: []string{"./pkg/broker"}, run: "TestFullTopic",
		},
		{
			name: "quota: what goes is not counted", file: "pkg/host/roles.go",
			old:   "if start := lp.Part.Log().Start(); start > wanted && len(lp.Part.Channels()) > 0 {",
			with:  "if start := lp.Part.Log().Start(); false && start > wanted && len(lp.Part.Channels()) > 0 {",
			tests: []string{"./pkg/broker"}, run: "TestFullTopic",
		},
		{
			name: "ttl: a message lives for ever", file: "pkg/topic/load.go",
			old: "	return passed >= ttl", with: "	return false",
			tests: []string{"./pkg/topic"}, run: "TestExpiredMessagesAreNotDelivered|TestExpiredMessagesDoNotBlockOrderedChannel",
		},
		{
			name: "ttl: the topic's goes before the message's", file: "pkg/topic/consumer.go",
			old: "	if m.TTL == 0 {", with: "	if k.ch.p.ttl.Load() > 0 {",
			tests: []string{"./pkg/topic"}, run: "TestExpiredMessagesAreNotDelivered|TestExpiredMessagesDoNotBlockOrderedChannel",
		},
	}
}

// expiryMistakes are about expired messages, and what other parts keep of messages that are gone.
func expiryMistakes() []mistake {
	return []mistake{
		{
			name: "ttl: an expired message counts each time it is taken", file: "pkg/channel/retry.go",
			old: " || r.state.t.slots[slot].delayed == outlived", with: "",
			tests: []string{"./pkg/channel"}, run: "TestMessageExpiresOnce",
		},
		{
			name: "ttl: expired messages are not counted", file: "pkg/topic/exhausted.go",
			old: "			c.expired++\n", with: "",
			tests: []string{"./pkg/topic"}, run: "TestExpiredMessagesAreNotDelivered|TestExpiredMessagesDoNotBlockOrderedChannel",
		},
	}
}

// silentMistakes are some that no test found once.
func silentMistakes() []mistake {
	return []mistake{
		{
			name: "dedup: the keeper goes while a publish is about to use it", file: "pkg/once/switch.go",
			old: " && s.offers.Load() == 0 && k.idle()", with: " && k.idle()",
			tests: []string{"./pkg/once"}, run: "TestOfferFindsTheKeeper",
		},
		{
			name: "relay: messages of a lost partition take room forever", file: "pkg/relay/transit.go",
			old: "q.all, q.bytes, q.held = make([]message, 0, len(all)), 0, 0", with: "q.all, q.held = make([]message, 0, len(all)), 0",
			tests: []string{"./pkg/relay"}, run: "TestLostMessagesNeedNoRoom",
		},
		{
			name: "ttl: expired messages spend the rate", file: "pkg/topic/consumer.go",
			old: "len(u.left) + len(u.expired) + len(u.back)", with: "len(u.left) + len(u.back)",
			tests: []string{"./pkg/topic"}, run: "TestExpiredMessagesUseUpNoRate",
		},
		{
			name: "ttl: a moved message is as old as its origin and has the rest of its time", file: "pkg/topic/load.go",
			old: "a != nil && (!a.Moves || !own) {", with: "a != nil {",
			tests: []string{"./pkg/topic"}, run: "TestMovedMessageLivesAsLongAsItsOrigin",
		},
		{
			name: "moves: a message is hidden by its move in a paused topic", file: "pkg/topic/mover.go",
			old: "ordered || !movable(from.c) ||", with: "ordered ||",
			tests: []string{"./pkg/topic"}, run: "TestMoveHidesNoMessage",
		},
		{
			name: "positions: a follower forgets which snapshot it has applied", file: "pkg/topic/journal.go",
			old: "j.base, j.end, j.synced, j.stamped = number, 0, 0, 0", with: "j.base, j.end, j.synced = number, 0, 0",
			tests: []string{"./pkg/topic"}, run: "TestRepeatedSnapshotAfterKillUndoesNoAttempts",
		},
	}
}
