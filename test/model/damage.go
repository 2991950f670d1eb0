package model

// Damage is what may happen to the log of one replica while its node is down.
type Damage uint8

// The kinds of damage. No more than one replica is damaged, and only while another
// one is in sync: the loss of the only in-sync copy is beyond what the rules promise.
const (
	NoDamage  Damage = iota
	LostEnd          // the end of the log is lost, which opening the log notices
	OlderDisk        // the disk is put back to an older state, which its content does not show
)

// standing is the last epoch and the end of a log, as one number that orders logs by both. 0: not
// suspect.
type standing uint8

func (n *replica) standing() standing {
	last := uint8(0)
	if n.end > 0 {
		last = n.log[n.end-1].epoch()
	}
	return standing(1 + last*(maxLog+1) + n.end)
}

// electable reports whether the metadata lets r be elected: it is in sync, and not
// suspect, or all in-sync replicas are and none ranks above it.
func (s *State) electable(r uint8) bool {
	isr, own := s.latest().isr, s.suspects[r]
	for f := range isr.members() {
		if other := s.suspects[f]; own != 0 && (other == 0 || other > own) {
			return false
		}
	}
	return isr.has(r)
}

// recovery enumerates how a log is damaged and what the nodes do about it.
type recovery struct{ of explorer }

// damages: a node stops, loses a part of the log of its replica, and starts again.
func (x recovery) damages(s *State, r uint8) {
	n, isr := &s.nodes[r], s.latest().isr
	if x.of.Damage == NoDamage || s.disks > 0 || n.lost != intact || isr == one(r) {
		return
	}
	for keep := uint8(1); keep < n.end; keep++ {
		t := *s
		t.disks++
		m := &t.nodes[r]
		m.cut(keep)
		if x.of.Damage == LostEnd {
			x.of.restarts(&t, r, lostEnd, Step{LoseEnd, r, keep, 0})
			continue
		}
		m.adopted = m.log[keep-1].epoch()
		m.harmed = true
		x.of.restarts(&t, r, olderDisk, Step{PutBack, r, keep, 0})
	}
}

// reports: a node whose log was damaged registers, which ends its term. If it has
// noticed the damage, it reports its replica as suspect before it acts.
func (x recovery) reports(s *State, r uint8) {
	n, d := &s.nodes[r], s.latest()
	leads := d.leader == r
	suspect := n.lost == lostEnd && x.of.on(SuspectLast) && d.isr.has(r) && d.isr.size() > 1
	if (leads || suspect) && int(s.version) >= x.of.Versions {
		return
	}
	t := *s
	m := &t.nodes[r]
	if leads {
		d.epoch++
	}
	if suspect && leads {
		d.leader = noLeader
	}
	if leads || suspect {
		x.of.decide(&t, d)
	}
	if suspect {
		t.suspects[r] = n.standing()
	}
	m.lost = intact
	t.lives[r]++
	if m.applied = t.version; d.leader == r {
		m.applied-- // it is about to lead in the new epoch
	} else {
		m.adopted = max(m.adopted, d.epoch)
	}
	x.of.emit(&t, Step{Report, r, uint8(d.isr), uint8(t.suspects[r])})
}

// waits reports whether leader r must not append, nor remove a replica from the ISR:
// its log was opened from disk, and another in-sync replica may hold more.
func (c *Config) waits(s *State, r uint8) bool {
	n := &s.nodes[r]
	if c.Damage == NoDamage || !n.unverified || !c.on(CompareFirst) {
		return false
	}
	for f := range s.view(r).isr.without(r).members() {
		if s.mayHoldMore(r, f) {
			return true
		}
	}
	return false
}

func (s *State) mayHoldMore(r, f uint8) bool {
	return s.suspects[f] == 0 || s.suspects[f] > s.nodes[r].standing()
}

// goesAlone: where one in-sync replica is enough, a leader waits only for a
// limited time for another one to compare logs with.
func (x recovery) goesAlone(s *State, r uint8) {
	if x.of.MinISR <= 1 && x.of.waits(s, r) {
		t := *s
		t.nodes[r].unverified = false
		x.of.emit(&t, Step{GoAlone, r, 0, 0})
	}
}

// keepsMore reports whether nothing of the log of f is to be cut in favour of leader
// r: f holds more than a leader that has only its disk to go by, or would cut what is
// committed. The leader yields to a replica that is in sync. One that is out may set
// its log aside at any moment, to be copied again.
func (x recovery) keepsMore(s *State, r, f uint8) bool {
	n, g := &s.nodes[r], &s.nodes[f]
	theirs := g.standing()
	if known := s.suspects[f]; known != 0 {
		theirs = min(theirs, known)
	}
	refuses := x.of.on(LongerStays) && x.of.meetingPoint(n, g) < g.committed
	more := refuses || x.of.waits(s, r) && theirs > n.standing()
	if more && s.view(r).isr.has(f) {
		x.yields(s, r, f)
		return true
	}
	return refuses
}

// yields: leader r transfers the leadership to f, which holds more.
func (x recovery) yields(s *State, r, f uint8) {
	d := s.latest()
	n := &s.nodes[r]
	if d.epoch != n.term || d.leader != r || !d.isr.has(f) || int(s.version) >= x.of.Versions {
		return
	}
	t := *s
	m := &t.nodes[r]
	before := *n
	before.cut(n.start)
	m.closeTerm()
	x.of.decide(&t, decision{d.epoch + 1, f, d.isr})
	if x.of.on(SuspectLast) {
		t.suspects[r] = before.standing()
	}
	x.of.emit(&t, Step{Yield, r, f, d.epoch + 1})
}

// compared notes that the logs of leader r and follower f have been compared. A
// comparison with a leader does not verify f, which may lack later records. f counts as
// verified nevertheless if one in-sync replica is enough and no leader waits for long.
func (c *Config) compared(t *State, r, f uint8) {
	if c.Damage == NoDamage {
		return
	}
	if t.view(r).isr.has(f) {
		t.nodes[r].unverified = false
	}
	if c.MinISR <= 1 {
		t.nodes[f].unverified = false
	}
}

// heals ends the observer's excuse of a replica once the replica holds all committed
// records.
func (s *State) heals(r uint8) {
	n := &s.nodes[r]
	for i, want := range s.truth {
		if want != 0 && n.log[i] != want {
			return
		}
	}
	n.harmed = false
}

// mayLeave reports whether follower f may be removed from the ISR. If logs are damaged, only the
// leader by the newest version may propose this, after it has compared logs.
func (c *Config) mayLeave(s *State, f uint8) bool {
	if c.Damage == NoDamage {
		return true
	}
	d := s.latest()
	if d.leader == noLeader {
		return false
	}
	n := &s.nodes[d.leader]
	return n.term == d.epoch && n.applied == s.version && (!c.waits(s, d.leader) || !s.mayHoldMore(d.leader, f))
}

// absolve forgets the suspects that are not in sync, and a leader that has begun to
// change the ISR: others compare with it.
func (s *State) absolve(leader uint8) {
	for r := range s.suspects {
		if !s.latest().isr.has(uint8(r)) || uint8(r) == leader {
			s.suspects[r] = 0
		}
	}
}

// excused reports whether r need not hold the committed records: it cannot know that
// its disk is older, and is not a leader that appends.
func (c *Config) excused(s *State, r uint8) bool {
	n := &s.nodes[r]
	return n.harmed && (n.term == 0 || c.waits(s, r))
}
