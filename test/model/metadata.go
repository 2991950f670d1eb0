package model

// counted returns the replicas that must have a record before leader r commits
// it: the ISR that it has applied, and while its own proposal is open the
// larger of the two sets.
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

// elections: the controller makes a replica leader, with or without removing
// the previous leader from the ISR. The controller cannot know whether that
// leader is really dead.
func (x explorer) elections(s *State) {
	d := s.latest()
	if int(d.epoch) >= x.Epochs || int(s.version) >= x.Versions {
		return
	}
	for r := range uint8(replicas) {
		if !s.electable(r) && x.on(ElectFromISR) || d.leader == r && s.nodes[r].term == d.epoch {
			continue
		}
		e := decision{epoch: d.epoch + 1, leader: r, isr: d.isr.with(r)}
		if !x.on(ElectionBumpsEpoch) && d.epoch > 0 {
			e.epoch = d.epoch
		}
		t := *s
		x.decide(&t, e)
		x.emit(&t, Step{Elect, r, e.epoch, uint8(e.isr)})
		if d.leader != noLeader && d.leader != r && e.isr.has(d.leader) && x.Damage == NoDamage {
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
	t.absolve(noLeader)
	for i := range t.proposals {
		if c.on(CompareAndSwap) && t.proposals[i].base < t.version {
			t.proposals[i] = proposal{}
		}
	}
}

// leavings: a follower leaves the ISR because it is down or lags. Any node may
// propose this: the leader continues to count the follower until it has applied
// the change.
func (x explorer) leavings(s *State) {
	d := s.latest()
	if int(s.version) >= x.Versions || d.epoch == 0 {
		return
	}
	for f := range uint8(replicas) {
		if d.isr.has(f) && d.leader != f && d.isr.size() > 1 && x.mayLeave(s, f) {
			t := *s
			x.decide(&t, decision{d.epoch, d.leader, d.isr.without(f)})
			t.absolve(d.leader)
			x.emit(&t, Step{Leave, f, uint8(d.isr.without(f)), 0})
		}
	}
}

// grows: leader r proposes to add a follower with the required records to the
// ISR.
func (x explorer) grows(s *State, r, f uint8) {
	n := &s.nodes[r]
	d := s.view(r)
	if d.epoch != n.term || d.isr.has(f) || !n.heard.has(f) || !x.mayPropose(s, r) || x.waits(s, r) {
		return
	}
	need := n.committed
	if x.on(GrowNeedsStart) {
		need = max(need, n.start)
	}
	if n.match[f] < need || x.Positions && x.on(PositionsJoin) && !n.holdsPosition(f) {
		return
	}
	x.proposes(s, r, proposal{isr: d.isr.with(f), joins: one(f), life: n.lives[f]}, Step{ProposeIn, r, f, need})
}

// shrinks: the leader's own proposal to remove f. It differs from leavings only
// if a leader does not wait for the answer.
func (x explorer) shrinks(s *State, r, f uint8) {
	d := s.view(r)
	if !x.on(ShrinkApplied) && d.epoch == s.nodes[r].term && d.isr.has(f) && x.mayPropose(s, r) {
		x.proposes(s, r, proposal{isr: d.isr.without(f)}, Step{ProposeOut, r, f, 0})
	}
}

// mayPropose: a leader has one open proposal at a time, and a proposal for an
// old version would have no effect.
func (c *Config) mayPropose(s *State, r uint8) bool {
	n := &s.nodes[r]
	return n.proposed == 0 && s.proposals[r].isr == 0 && (n.applied == s.version || !c.on(CompareAndSwap))
}

func (x explorer) proposes(s *State, r uint8, p proposal, step Step) {
	t := *s
	t.nodes[r].proposed = p.isr
	p.base = t.nodes[r].applied
	t.proposals[r] = p
	x.emit(&t, step)
}

// givesUp: a leader without an answer to its proposal assumes that it was
// refused.
func (x explorer) givesUp(s *State, r uint8) {
	if !x.on(UndecidedCounts) && s.nodes[r].proposed != 0 {
		t := *s
		t.nodes[r].proposed = 0
		x.emit(&t, Step{GiveUp, r, 0, 0})
	}
}

// decidesProposal: a proposal reaches the metadata, whatever the current state
// of its proposer. A proposal with an earlier life of the joiner is refused,
// and the proposer gets the refusal at once if it still waits.
func (x explorer) decidesProposal(s *State, r uint8) {
	p, d := s.proposals[r], s.latest()
	if p.isr == 0 || int(s.version) >= x.Versions {
		return
	}
	t := *s
	t.proposals[r] = proposal{}
	for f := range p.joins.members() {
		if x.on(GrowNeedsLife) && s.lives[f] != p.life {
			if n := &t.nodes[r]; n.proposed == p.isr && n.applied == p.base {
				n.proposed = 0
			}
			x.emit(&t, Step{RefuseLife, r, f, 0})
			return
		}
	}
	x.decide(&t, decision{d.epoch, d.leader, p.isr})
	t.absolve(d.leader)
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
	leads := d.leader == r && n.lost != missing && (d.epoch > n.adopted ||
		!x.on(ElectionBumpsEpoch) && d.leader != before.leader ||
		!x.on(RestartEndsTerm) && d.epoch == n.adopted && n.term == 0)
	if d.epoch != before.epoch || d.leader != before.leader {
		n.session = false
		if x.on(TermCloses) || leads {
			n.closeTerm()
		}
	}
	n.adopted = max(n.adopted, d.epoch)
	if n.lost == missing && !d.isr.has(r) {
		n.lost = intact // it starts again
	}
	if leads {
		t.clock.begins(d.epoch)
		x.beginTerm(n, r, d.epoch)
		if !x.on(CommitInEpoch) {
			t.commit(r, n.end)
		}
	}
	x.emit(&t, Step{Apply, r, n.applied, 0})
}

// beginTerm makes n a leader, with all its records and without knowledge of the
// others.
func (c *Config) beginTerm(n *replica, r, epoch uint8) {
	n.term, n.start = epoch, n.end
	n.match[r] = n.end
	n.shot = n.position
	if c.SyncAlways && c.on(AckAfterSync) {
		n.match[r] = n.durable
	}
}
