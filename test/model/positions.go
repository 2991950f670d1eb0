package model

// channel enumerates the possible steps of an ordered channel. A message is handed to a consumer, and
// the next one after its FIN counts. A FIN is sent to the followers before the leader applies it, and
// answered when it is applied. In a term, followers first get a snapshot; a FIN is a change to it.
type channel struct{ of explorer }

func (x channel) next(s *State, r uint8) {
	if x.of.Crashes > 0 {
		x.checkpoints(s, r)
	}
	if s.nodes[r].term == 0 {
		return
	}
	x.hands(s, r)
	x.finishes(s, r)
	x.makesSnapshot(s, r)
	for f := range x.of.replicas().without(r).members() {
		x.tellsSnapshot(s, r, f)
		x.tellsChange(s, r, f)
		if x.of.Drops {
			x.drops(s, r, f)
			x.sharesBehindGap(s, r, f)
		}
	}
}

// hands: the leader gives a consumer the message at its position.
func (x channel) hands(s *State, r uint8) {
	n := &s.nodes[r]
	if n.position >= n.committed || n.handed != 0 {
		return
	}
	for f := range x.of.counted(s, r).without(r).members() {
		if x.of.on(SnapshotFirst) && !n.holdsPosition(f) {
			return
		}
	}
	t := *s
	t.nodes[r].handed = n.position + 1
	t.delivered = max(t.delivered, n.position+1)
	x.of.emit(&t, Step{Hand, r, n.position, 0})
}

// finishes: the consumer has answered its message.
func (x channel) finishes(s *State, r uint8) {
	n := &s.nodes[r]
	if n.handed == 0 {
		return
	}
	for f := range x.of.counted(s, r).without(r).members() {
		if n.positions[f] <= n.position && x.of.on(FinReplicatedFirst) {
			return
		}
	}
	t := *s
	m := &t.nodes[r]
	t.done = t.done.with(n.log[n.position].id())
	m.position++
	m.handed = 0
	t.finished = max(t.finished, m.position)
	if !x.of.on(FinNoted) {
		x.of.emit(&t, Step{FinishUnnoted, r, m.position, 0})
	}
	x.of.notes(m)
	x.of.emit(&t, Step{Finish, r, m.position, 0})
}

// makesSnapshot: leader r makes another snapshot, which everyone gets before
// anything else. It counts changes in flight as finished.
func (x channel) makesSnapshot(s *State, r uint8) {
	n := &s.nodes[r]
	shot := n.position
	if n.handed != 0 && x.of.on(SnapshotCountsSent) {
		for f := range n.positions {
			shot = max(shot, n.sent(uint8(f)))
		}
	}
	if shot == n.shot {
		return
	}
	t := *s
	m := &t.nodes[r]
	m.shot, m.told = shot, 0
	x.of.emit(&t, Step{MakeSnapshot, r, shot, 0})
}

// tellsSnapshot: follower f stores the newest snapshot of leader r in place of
// what it has, unless it has taken it before, perhaps in an earlier session: it
// has had changes since. The snapshot covers every share that was dropped before.
func (x channel) tellsSnapshot(s *State, r, f uint8) {
	n := &s.nodes[r]
	if n.told.has(f) || !x.of.hears(s, r, f) {
		return
	}
	t := *s
	m, g := &t.nodes[r], &t.nodes[f]
	m.told = m.told.with(f)
	m.positions[f], m.dropped[f] = max(n.sent(f), n.shot), 0
	if shot := newRecord(n.term, n.shot+1); g.taken != shot || !x.of.on(SnapshotTakenOnce) {
		g.taken = shot
		g.position = n.shot
		if !x.of.on(PositionWaits) {
			g.position = min(g.position, g.end)
		}
		x.of.notes(g)
		g.stored = g.noted
	}
	x.of.emit(&t, Step{TellSnapshot, r, f, n.shot})
}

// tellsChange: follower f gets the next FIN that it does not know.
func (x channel) tellsChange(s *State, r, f uint8) {
	n := &s.nodes[r]
	p := n.positions[f] + 1
	if !n.sendsChange(f) || !x.of.hears(s, r, f) {
		return
	}
	t := *s
	t.done = t.done.with(n.log[p-1].id())
	t.nodes[r].positions[f] = p
	g := &t.nodes[f]
	g.position = max(g.position, p)
	if !x.of.on(PositionWaits) {
		g.position = min(g.position, g.end)
	}
	if !x.of.on(FinNoted) {
		x.of.emit(&t, Step{TellChangeUnnoted, r, f, p})
	}
	x.of.notes(g)
	x.of.emit(&t, Step{TellChange, r, f, p})
}

// notes: n notes its position. Models without crashes leave that out.
func (c *Config) notes(n *replica) {
	if c.Crashes > 0 {
		n.noted = n.position
	}
}

// hears reports whether a request of r reaches f, in a session.
func (c *Config) hears(s *State, r, f uint8) bool {
	return s.nodes[f].session && s.view(f).leader == r && c.accepts(s, f, r, s.nodes[r].term)
}

// checkpoints: node r stores its position, a leader only as far as the messages
// are on its disk. Earlier notes no longer count then, and a leader notes again
// the changes that the snapshot does not contain.
func (x channel) checkpoints(s *State, r uint8) {
	n := &s.nodes[r]
	stored := n.position
	if n.term != 0 {
		stored = min(stored, n.durable)
	}
	noted := stored
	if x.of.on(CheckpointKeeps) {
		noted = max(noted, n.noted)
	}
	if n.lost != intact || stored == n.stored && noted == n.noted {
		return
	}
	t := *s
	t.nodes[r].stored, t.nodes[r].noted = stored, noted
	x.of.emit(&t, Step{Checkpoint, r, stored, 0})
}
