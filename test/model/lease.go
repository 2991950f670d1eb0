package model

// lease is a leader's right to deliver. Time is counted in whole leases: a second since the last
// contact in the broker is the rest of this lease and the next one here.
type lease struct {
	held     bool
	answered set  // followers that have recognised the term in this time
	taken    bool // a message was taken for a consumer, and is not yet written
}

// clock is the elapsed time, and an observer's records of it.
type clock struct {
	now  uint8
	seen uint8 // the version of the metadata when this time began
	// begun[i] is the highest epoch in which a term had begun i times ago.
	begun [4]uint8
}

// relay is the node of a consumer that gets messages of another node.
type relay struct {
	epoch uint8 // of the leader that has sent it a message; 0: none
	age   uint8 // how many times have passed since
}

// A leader delivers at most until the time after the one in which it was
// superseded; a relay delivers the leader's messages at most one lease later.
const (
	longestLease = 2
	longestRelay = 3
)

// begins notes that a term has begun.
func (c *clock) begins(epoch uint8) { c.begun[0] = max(c.begun[0], epoch) }

// delivery enumerates the possible deliveries as time passes.
type delivery struct{ of explorer }

func (x delivery) next(s *State) {
	x.passesTime(s)
	x.relayHands(s)
	for r := range uint8(replicas) {
		if s.nodes[r].term == 0 {
			continue
		}
		x.delivers(s, r)
		for f := range x.of.replicas().without(r).members() {
			x.recognises(s, r, f)
		}
	}
}

// passesTime: the duration of a lease passes. A leader keeps its lease if it was
// in touch with the metadata's quorum, and so has applied all earlier decisions,
// or with every replica that counts.
func (x delivery) passesTime(s *State) {
	if int(s.clock.now) >= x.of.Leases {
		return
	}
	t := *s
	for r := range uint8(replicas) {
		n := &t.nodes[r]
		if n.applied < s.clock.seen && !x.of.everyoneAnswered(s, r) && x.of.on(LeaseEnds) {
			n.lease.held = false
		}
		n.lease.answered = 0
	}
	c := &t.clock
	c.now++
	c.seen = s.version
	copy(c.begun[1:], s.clock.begun[:])
	if s.relay.epoch != 0 {
		t.relay.age++
	}
	x.of.emit(&t, Step{PassTime, 0, 0, 0})
}

// everyoneAnswered reports whether all replicas that r needs for a commit have
// recognised its term in this time.
func (c *Config) everyoneAnswered(s *State, r uint8) bool {
	needed := c.counted(s, r)
	if !c.on(LeaseNeedsJoiner) {
		needed = s.view(r).isr
	}
	return needed.without(r).subsetOf(s.nodes[r].lease.answered)
}

// recognises: follower f answers leader r in its term. When everyone has, the
// lease begins.
func (x delivery) recognises(s *State, r, f uint8) {
	if s.nodes[r].lease.answered.has(f) || !x.of.accepts(s, f, r, s.nodes[r].term) {
		return
	}
	t := *s
	t.nodes[r].lease.answered = s.nodes[r].lease.answered.with(f)
	x.of.emit(&t, Step{Recognise, f, r, 0})
}

// delivers: leader r takes a message for a consumer, and writes it or sends it
// to a relay. In between its process may be paused.
func (x delivery) delivers(s *State, r uint8) {
	n := &s.nodes[r]
	if n.committed == 0 {
		return
	}
	if !n.lease.held && (x.of.everyoneAnswered(s, r) || !x.of.on(LeaseBegins)) {
		t := *s
		t.nodes[r].lease.held = true
		x.of.emit(&t, Step{HoldLease, r, 0, 0})
	}
	if !n.lease.taken && n.lease.held {
		t := *s
		t.nodes[r].lease.taken = true
		x.of.emit(&t, Step{Take, r, 0, 0})
	}
	if !n.lease.taken || !n.lease.held && x.of.on(LeaseAskedLast) {
		return
	}
	t := *s
	t.nodes[r].lease.taken = false
	x.of.emit(&t, Step{Write, r, n.term, 0})
	if s.relay.epoch == 0 {
		t.relay = relay{epoch: n.term}
		x.of.emit(&t, Step{SendRelay, r, n.term, 0})
	}
}

// relayHands: the relay delivers a leader's message, or finds that it was
// paused for too long and begins again.
func (x delivery) relayHands(s *State) {
	if s.relay.epoch == 0 {
		return
	}
	t := *s
	t.relay = relay{}
	if s.relay.age > 1 && x.of.on(RelayBeginsAnew) {
		x.of.emit(&t, Step{ForgetRelay, s.relay.epoch, 0, 0})
	} else {
		x.of.emit(&t, Step{HandOver, s.relay.epoch, 0, 0})
	}
}

// lateDelivery says which delivery is later than a lease allows.
func (s *State) lateDelivery(step Step) string {
	switch {
	case step.Kind == Write && step.B < s.clock.begun[longestLease]:
		return name(step.A) + " delivers, and another has led for longer than a lease"
	case step.Kind == HandOver && step.A < s.clock.begun[longestRelay]:
		return "a consumer gets what a leader has sent that was replaced long before"
	}
	return ""
}
