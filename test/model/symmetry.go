package model

import "hash/maphash"

// order maps each replica to its new name.
type order [replicas]uint8

// orders returns all of them.
func orders() []order {
	return []order{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
}

// fingerprinter turns states into numbers of 64 bits: equal ones for states
// that differ only in the names of the replicas.
type fingerprinter struct {
	seed   maphash.Seed
	orders []order
}

func newFingerprinter() *fingerprinter {
	return &fingerprinter{maphash.MakeSeed(), orders()}
}

// of returns the fingerprint of s. Of all renamings it considers those that sort the replicas by
// properties that do not depend on names, and of these the one with the smallest hash.
func (f *fingerprinter) of(s *State) uint64 {
	var keys [replicas]uint64
	for r := range keys {
		keys[r] = f.key(s, uint8(r))
	}
	least := uint64(0)
	for i := range f.orders {
		p := &f.orders[i]
		var sorted [replicas]uint64
		for r, to := range p {
			sorted[to] = keys[r]
		}
		if sorted[0] > sorted[1] || sorted[1] > sorted[2] {
			continue
		}
		t := s.permuted(p)
		h := maphash.Comparable(f.seed, t)
		if least == 0 || h < least {
			least = h
		}
	}
	return max(least, 1) // 0 is an empty place in the table
}

// key hashes what distinguishes replica r from the others, without mentioning another replica.
func (f *fingerprinter) key(s *State, r uint8) uint64 {
	n := s.nodes[r]
	n.match = [replicas]uint8{n.match[r]}
	n.positions, n.dropped, n.lives = [replicas]uint8{}, [replicas]uint8{}, [replicas]uint8{}
	n.heard, n.proposed, n.told, n.lease.answered = 0, 0, 0, 0
	var led, member uint16
	for i := range s.version + 1 {
		if s.meta[i].leader == r {
			led |= 1 << i
		}
		if s.meta[i].isr.has(r) {
			member |= 1 << i
		}
	}
	return maphash.Comparable(f.seed, struct {
		replica
		led, member uint16
	}{n, led, member})
}

// permuted renames the replicas.
func (s *State) permuted(p *order) State {
	t := *s
	for i := range s.version + 1 {
		d := &t.meta[i]
		d.isr = d.isr.permuted(p)
		if d.leader < replicas {
			d.leader = p[d.leader]
		}
	}
	for r, to := range p {
		n := s.nodes[r]
		n.heard, n.proposed, n.told = n.heard.permuted(p), n.proposed.permuted(p), n.told.permuted(p)
		n.lease.answered = n.lease.answered.permuted(p)
		for f, at := range p {
			n.match[at] = s.nodes[r].match[f]
			n.positions[at] = s.nodes[r].positions[f]
			n.dropped[at] = s.nodes[r].dropped[f]
			n.lives[at] = s.nodes[r].lives[f]
		}
		t.nodes[to] = n
		t.lives[to] = s.lives[r]
		t.suspects[to] = s.suspects[r]
		t.proposals[to] = s.proposals[r]
		t.proposals[to].isr, t.proposals[to].joins = s.proposals[r].isr.permuted(p), s.proposals[r].joins.permuted(p)
	}
	for i := range t.post {
		if m := &t.post[i]; m.kind != noMessage {
			m.from, m.to = p[m.from], p[m.to]
		}
	}
	if t.post[0].number() < t.post[1].number() { // the network keeps no order
		t.post[0], t.post[1] = t.post[1], t.post[0]
	}
	return t
}

// number packs a message into a number; no message is 0.
func (m message) number() uint64 {
	n := uint64(m.kind)
	for _, v := range []uint8{m.from, m.to, m.epoch, m.at, uint8(m.record)} {
		n = n<<8 | uint64(v)
	}
	n <<= 2
	if m.stale {
		n |= 2
	}
	if m.checked {
		n |= 1
	}
	return n
}
