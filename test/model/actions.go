package model

// explorer enumerates the possible next steps in a state.
type explorer struct {
	*Config
	emit func(t *State, step Step)
}

// next emits every state that s can become in one step.
func (x explorer) next(s *State) {
	x.elections(s)
	x.leavings(s)
	x.deliveries(s)
	if x.Leases > 0 {
		delivery{x}.next(s)
	}
	for r := range x.replicas().members() {
		x.decidesProposal(s, r)
		x.registers(s, r)
		x.crashes(s, r)
		if !s.nodes[r].registered() {
			continue
		}
		if x.Positions {
			channel{x}.next(s, r)
		}
		x.applies(s, r)
		if s.nodes[r].term == 0 {
			continue
		}
		x.publishes(s, r)
		x.syncs(s, r)
		x.commits(s, r)
		for f := range x.replicas().members() {
			if f != r {
				x.meets(s, r, f)
				x.pushes(s, r, f)
				x.tellsCommitted(s, r, f)
				x.grows(s, r, f)
				x.shrinks(s, r, f)
			}
		}
		x.givesUp(s, r)
		recovery{x}.goesAlone(s, r)
	}
}

// accepts reports whether f accepts requests of r as the leader of an epoch: f
// acts on metadata that names r and the epoch, and has not answered in a later
// epoch.
func (c *Config) accepts(s *State, f, r, epoch uint8) bool {
	n := &s.nodes[f]
	if n.lost != intact {
		return false
	}
	if !c.on(FenceFollower) {
		return n.term < epoch
	}
	v := s.view(f)
	return v.leader == r && v.epoch == epoch && n.adopted <= epoch && n.term == 0
}

// publishes: the leader appends to its own log. Nothing is durable yet.
func (x explorer) publishes(s *State, r uint8) {
	n := &s.nodes[r]
	if int(s.published) < x.Publishes && int(n.end) < x.Log && s.view(r).isr.size() >= x.MinISR && !x.waits(s, r) {
		t := *s
		t.published++
		m := &t.nodes[r]
		rec := newRecord(m.term, t.published)
		m.append(rec)
		if !x.SyncAlways || !x.on(AckAfterSync) {
			m.match[r] = m.end
		}
		x.emit(&t, Step{Publish, r, n.end, uint8(rec)})
	}
	for i := n.committed; i < n.end && !x.on(FailedOnlyUnwritten); i++ {
		t := *s
		t.failed = t.failed.with(n.log[i].id())
		x.emit(&t, Step{TellFailed, r, i, uint8(n.log[i])})
	}
	if !x.on(NoRollback) && n.end > n.committed && n.end > n.start {
		t := *s
		m := &t.nodes[r]
		m.cut(n.end - 1)
		for f := range m.match {
			m.match[f] = min(m.match[f], m.end)
		}
		x.emit(&t, Step{RollBack, r, m.end, uint8(n.log[m.end])})
	}
}

// syncs: the leader's appended records become durable. Followers sync what they
// append before they answer, so that it is one step for them. Without
// SyncAlways, the moment matters only to the positions.
func (x explorer) syncs(s *State, r uint8) {
	if n := &s.nodes[r]; (x.SyncAlways || x.Alone) && n.durable < n.end {
		t := *s
		m := &t.nodes[r]
		m.durable = m.end
		m.match[r] = m.end
		x.emit(&t, Step{Sync, r, m.end, 0})
	}
}

// commits: every replica that counts has acknowledged more. The publishers get
// their answers, and consumers may see the records. While fewer replicas are in
// sync than the topic requires, only records inherited by the term are
// committed: their publishers get no answer.
func (x explorer) commits(s *State, r uint8) {
	n := &s.nodes[r]
	least := n.end
	counted := x.counted(s, r)
	for f, end := range n.match {
		if counted.has(uint8(f)) {
			least = min(least, end)
		}
	}
	if s.view(r).isr.size() < x.MinISR && x.on(MinimumHoldsEnd) {
		least = min(least, n.start)
	}
	if least > n.committed {
		t := *s
		t.commit(r, least)
		for i := max(n.start, n.committed); i < least && x.MinISR > 1; i++ {
			t.acked = t.acked.with(n.log[i].id())
		}
		x.emit(&t, Step{Commit, r, least, 0})
	}
}

// meets: a follower that has no session compares logs with its leader and
// truncates records that the leader does not have. Messages of the previous
// session become stale.
func (x explorer) meets(s *State, r, f uint8) {
	n, g := &s.nodes[r], &s.nodes[f]
	if v := s.view(f); g.session || v.leader != r || !x.accepts(s, f, r, n.term) {
		return
	}
	if x.Damage != NoDamage && (recovery{x}).keepsMore(s, r, f) {
		return
	}
	t := *s
	m, h := &t.nodes[r], &t.nodes[f]
	keep := min(g.end, n.end)
	switch {
	case !x.on(Reconcile):
	case !x.on(WalkBack):
		keep = min(g.committed, n.end)
		h.cut(keep)
	default:
		keep = x.meetingPoint(n, g)
		h.cut(keep)
	}
	h.session = true
	h.durable = h.end
	if !x.SyncAlways || !x.on(AckAfterSync) {
		h.durable = g.durable
	}
	h.durable = min(h.durable, h.end)
	m.heard = m.heard.with(f)
	x.compared(&t, r, f)
	m.lives[f] = s.lives[f]
	if x.on(SessionResets) {
		m.match[f], m.positions[f], m.dropped[f], m.told = keep, 0, 0, m.told.without(f)
	} else {
		m.match[f] = max(m.match[f], keep)
	}
	for i := range t.post {
		if p := &t.post[i]; p.from == r && p.to == f || p.from == f && p.to == r {
			p.stale = p.kind != noMessage
		}
	}
	x.emit(&t, Step{Meet, f, r, keep})
}

// meetingPoint returns the length of the prefix that two logs share.
func (c *Config) meetingPoint(n, g *replica) uint8 {
	i := uint8(0)
	for ; i < n.end && i < g.end; i++ {
		a, b := n.log[i], g.log[i]
		if a.epoch() != b.epoch() || a != b && c.on(ReconcileByContent) {
			break
		}
	}
	return i
}

// pushes: the leader sends the first record that the follower is not known to
// have. The push or its answer arrives, is lost, or is delayed.
func (x explorer) pushes(s *State, r, f uint8) {
	n := &s.nodes[r]
	at := n.match[f]
	if at >= n.end || !n.heard.has(f) {
		return
	}
	m := message{kind: push, from: r, to: f, epoch: n.term, at: at, record: n.log[at]}
	x.posts(s, m, Step{PushDelayed, r, f, uint8(m.record)})
	if x.accepts(s, f, r, n.term) && (s.nodes[f].session || !x.on(FenceFollower)) {
		x.receives(s, m, Step{Push, r, f, uint8(m.record)})
	}
}

// receives: the follower has checked a push, appends it or finds that it has
// it, and answers. The answer may arrive, be lost, or be delayed.
func (x explorer) receives(s *State, m message, step Step) {
	t := *s
	g := &t.nodes[m.to]
	switch {
	case g.end > m.at && (g.log[m.at] == m.record || !x.on(DuplicateByContent)):
	case g.end == m.at && int(g.end) < x.Log:
		g.append(m.record)
		t.heals(m.to)
		if x.SyncAlways && x.on(AckAfterSync) {
			g.durable = g.end
		}
		if !x.on(AppendIsNotCommit) {
			t.commit(m.to, g.end)
		}
	default: // a gap, or another record: logs must be compared again
		if g.session && x.on(FenceFollower) {
			g.session = false
			x.emit(&t, Step{Refuse, m.from, m.to, uint8(m.record)})
		}
		return
	}
	answer := message{kind: ack, from: m.to, to: m.from, epoch: m.epoch, at: m.at + 1, stale: m.stale}
	x.emit(&t, step.answered(AnswerLost))
	x.posts(&t, answer, step.answered(AnswerDelayed))
	if x.acknowledge(&t, answer) {
		x.emit(&t, step)
	}
}

// acknowledge passes an answer to a leader, and reports whether the leader
// accepts it.
func (c *Config) acknowledge(t *State, m message) bool {
	n := &t.nodes[m.to]
	if n.term == 0 || n.lost != intact || m.stale && c.on(SessionResets) || n.term != m.epoch && c.on(FenceLeader) {
		return false
	}
	n.match[m.from] = max(n.match[m.from], min(m.at, n.end))
	return true
}

// posts: the network keeps a message for later.
func (x explorer) posts(s *State, m message, step Step) {
	for i := range x.Delayed {
		if s.post[i] == m {
			return
		}
		if s.post[i].kind == noMessage {
			t := *s
			t.post[i] = m
			x.emit(&t, step)
			return
		}
	}
}

// deliveries: a delayed message is lost, or it arrives. It may arrive again, or its answer replaces
// it.
func (x explorer) deliveries(s *State) {
	for i := range s.post {
		m := s.post[i]
		if m.kind == noMessage {
			continue
		}
		t := *s
		t.post[i] = message{}
		x.emit(&t, Step{Lose, uint8(m.kind), m.from, m.to})
		if m.kind == ack {
			t := *s
			if x.acknowledge(&t, m) {
				x.emit(&t, Step{AckArrives, m.to, m.from, m.at})
			}
			continue
		}
		accepted := x.accepts(s, m.to, m.from, m.epoch) && (s.nodes[m.to].session || !x.on(FenceFollower))
		if accepted && !m.checked && !x.on(CheckAndAppend) {
			t := *s
			t.post[i].checked = true
			x.emit(&t, Step{PushChecked, m.from, m.to, uint8(m.record)})
		}
		if accepted || m.checked && s.nodes[m.to].term == 0 && s.nodes[m.to].lost == intact {
			step := Step{PushArrives, m.from, m.to, uint8(m.record)}
			x.receives(s, m, step)
			x.receives(&t, m, step)
		}
	}
}

// tellsCommitted: a follower learns the leader's committed end, limited to the
// records that it is known to hold.
func (x explorer) tellsCommitted(s *State, r, f uint8) {
	n, g := &s.nodes[r], &s.nodes[f]
	end := min(n.committed, n.match[f], g.end)
	if !g.session || end <= g.committed || s.view(f).leader != r || !x.accepts(s, f, r, n.term) {
		return
	}
	t := *s
	t.commit(f, end)
	x.emit(&t, Step{TellCommitted, r, f, end})
}
