package model

// counted returns who must have a record before leader r commits it: the ISR
// that it has applied, and while its own proposal is open the larger of the
// two sets.
func (c *Config) counted(s *State, r uint8) set {
	isr, p := s.view(r).isr, s.nodes[r].proposed
	switch {
	case p == 0:
		return isr
	case p.subsetOf(isr):
		if c.on(ShrinkApplied) {
			return isr
		}
		return p
	case c.on(GrowCounts):
		return isr | p
	}
	return isr
}

// elections: the controller makes a replica leader, with or without taking the
// leader before it out of the ISR. Whether that one is really dead it cannot
// know.
func (x explorer) elections(s *State) {
	d := s.latest()
	if int(d.epoch) >= x.Epochs || int(s.version) >= x.Versions {
		return
	}
	for r := range uint8(replicas) {
		if !d.isr.has(r) && x.on(ElectFromISR) || d.leader == r && s.nodes[r].term == d.epoch {
			continue
		}
		e := decision{epoch: d.epoch + 1, leader: r, isr: d.isr.with(r)}
		if !x.on(ElectionBumpsEpoch) && d.epoch > 0 {
			e.epoch = d.epoch
		}
		t := *s
		x.decide(&t, e)
		x.emit(&t, Step{Elect, r, e.epoch, uint8(e.isr)})
		if d.leader != nobody && d.leader != r && e.isr.has(d.leader) {
			e.isr = e.isr.without(d.leader)
			t := *s
			x.decide(&t, e)
			x.emit(&t, Step{Elect, r, e.epoch, uint8(e.isr)})
		}
	}
}

// decide adds a version. Proposals for earlier ones can no longer be applied.
func (c *Config) decide(t *State, d decision) {
	t.decide(d)
	for i := range t.proposals {
		if c.on(CompareAndSwap) && t.proposals[i].base < t.version {
			t.proposals[i] = proposal{}
		}
	}
}

// leavings: a follower leaves the ISR because it is down or lags. It does not
// matter who asks: the leader goes on counting it until it has applied this.
func (x explorer) leavings(s *State) {
	d := s.latest()
	if int(s.version) >= x.Versions || d.epoch == 0 {
		return
	}
	for f := range uint8(replicas) {
		if d.isr.has(f) && d.leader != f && d.isr.size() > 1 {
			t := *s
			x.decide(&t, decision{d.epoch, d.leader, d.isr.without(f)})
			x.emit(&t, Step{Leave, f, uint8(d.isr.without(f)), 0})
		}
	}
}

// grows: leader r proposes a follower into the ISR that has what it must have.
func (x explorer) grows(s *State, r, f uint8) {
	n := &s.nodes[r]
	d := s.view(r)
	if d.epoch != n.term || d.isr.has(f) || !n.heard.has(f) || !x.mayPropose(s, r) {
		return
	}
	need := n.committed
	if x.on(GrowNeedsStart) {
		need = max(need, n.start)
	}
	if n.match[f] < need || x.Positions && x.on(PositionsJoin) && n.positions[f] < n.position {
		return
	}
	x.proposes(s, r, d.isr.with(f), Step{ProposeIn, r, f, need})
}

// shrinks: the leader's own proposal to take f out. It differs from leavings
// only where a leader does not wait for the answer.
func (x explorer) shrinks(s *State, r, f uint8) {
	d := s.view(r)
	if !x.on(ShrinkApplied) && d.epoch == s.nodes[r].term && d.isr.has(f) && x.mayPropose(s, r) {
		x.proposes(s, r, d.isr.without(f), Step{ProposeOut, r, f, 0})
	}
}

// mayPropose: one proposal of a leader is open at a time, and one that is made
// for an old version would come to nothing.
func (c *Config) mayPropose(s *State, r uint8) bool {
	n := &s.nodes[r]
	return n.proposed == 0 && s.proposals[r].isr == 0 && (n.applied == s.version || !c.on(CompareAndSwap))
}

func (x explorer) proposes(s *State, r uint8, isr set, step Step) {
	t := *s
	t.nodes[r].proposed = isr
	t.proposals[r] = proposal{isr, t.nodes[r].applied}
	x.emit(&t, step)
}

// givesUp: a leader that heard nothing of its proposal takes it for refused.
func (x explorer) givesUp(s *State, r uint8) {
	if !x.on(UndecidedCounts) && s.nodes[r].proposed != 0 {
		t := *s
		t.nodes[r].proposed = 0
		x.emit(&t, Step{GiveUp, r, 0, 0})
	}
}

// decidesProposal: a proposal reaches the metadata, whatever its proposer is
// by then.
func (x explorer) decidesProposal(s *State, r uint8) {
	p, d := s.proposals[r], s.latest()
	if p.isr == 0 || int(s.version) >= x.Versions {
		return
	}
	t := *s
	t.proposals[r] = proposal{}
	x.decide(&t, decision{d.epoch, d.leader, p.isr})
	x.emit(&t, Step{Decide, r, uint8(p.isr), 0})
}

// applies: replica r acts on the next version of the metadata. Here terms
// begin and end, and epochs are adopted.
func (x explorer) applies(s *State, r uint8) {
	if s.nodes[r].applied == s.version {
		return
	}
	t := *s
	n := &t.nodes[r]
	before := t.view(r)
	n.applied++
	d := t.view(r)
	n.proposed = 0
	leads := d.leader == r && (d.epoch > n.adopted ||
		!x.on(ElectionBumpsEpoch) && d.leader != before.leader ||
		!x.on(RestartEndsTerm) && d.epoch == n.adopted && n.term == 0)
	if d.epoch != before.epoch || d.leader != before.leader {
		n.session = false
		if x.on(TermCloses) || leads {
			n.closeTerm()
		}
	}
	n.adopted = max(n.adopted, d.epoch)
	if leads {
		x.beginTerm(n, r, d.epoch)
		if !x.on(CommitInEpoch) {
			t.commit(r, n.end)
		}
	}
	x.emit(&t, Step{Apply, r, n.applied, 0})
}

// beginTerm makes n a leader, with everything it holds and nothing believed of
// the others.
func (c *Config) beginTerm(n *replica, r, epoch uint8) {
	n.term, n.start = epoch, n.end
	n.match[r] = n.end
	if c.SyncAlways && c.on(AckAfterSync) {
		n.match[r] = n.durable
	}
}

// registers: a node that may have lost data is back and says so. In one change
// of the metadata it leaves the ISR and leads no more; the only member of an
// ISR leaves the partition offline, for an operator to decide. The node then
// acts on that version and later ones.
func (x explorer) registers(s *State, r uint8) {
	n, d := &s.nodes[r], s.latest()
	if !n.lost {
		return
	}
	t := *s
	if d.isr.has(r) || d.leader == r {
		if int(s.version) >= x.Versions {
			return
		}
		if d.leader == r {
			d.leader = nobody
		}
		d.isr = d.isr.without(r)
		x.decide(&t, d)
	}
	if x.on(GrowNeedsLife) {
		x.forgets(&t, r)
	}
	m := &t.nodes[r]
	m.lost = false
	if x.on(RegisterFirst) {
		m.applied = t.version
		m.adopted = max(m.adopted, d.epoch)
	}
	x.emit(&t, Step{Register, r, uint8(d.isr), 0})
}

// forgets: metadata refuses a proposal for r that comes from a session with an
// earlier life of r. The model ends these sessions at their leaders, which
// comes to the same: nothing else that they are good for reaches r any more.
func (c *Config) forgets(t *State, r uint8) {
	for i := range t.nodes {
		t.nodes[i].heard = t.nodes[i].heard.without(r)
		if p := &t.proposals[i]; p.isr.has(r) && !t.latest().isr.has(r) {
			*p = proposal{}
		}
	}
}

// crashes: a node is killed and started again, or its machine loses power.
// What it had in memory is gone. It starts with no metadata and applies it
// anew, version by version.
func (x explorer) crashes(s *State, r uint8) {
	n := &s.nodes[r]
	if int(s.crashes) >= x.Crashes || n.adopted == 0 {
		return
	}
	for keep := n.durable; keep <= n.end; keep++ {
		t := *s
		t.crashes++
		m := &t.nodes[r]
		step := Step{Kill, r, keep, 0}
		if keep < n.end {
			step.Kind = PowerCut
			m.cut(keep)
			m.lost = !x.SyncAlways && x.on(BootRule)
		}
		m.applied, m.session = 0, false
		m.closeTerm()
		if !x.on(PersistEpoch) {
			m.adopted = 0
		}
		x.emit(&t, step)
	}
}
