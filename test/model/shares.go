package model

// Snapshots and changes of positions are shares. A session sends them in order, and the answer to
// one counts for all that were sent before it. A share that is dropped on its way therefore leaves
// a gap: the leader has not counted it yet, and the next answer would count it.
//
// The modelled ordered channel cannot close such a gap itself: its next message is delivered only
// when the previous FIN is counted. The shares of another channel can: their content does not
// matter to the model, but their answers count.

// holdsPosition reports whether leader n counts follower f as having the position
// that n delivers from.
func (n *replica) holdsPosition(f uint8) bool {
	return n.told.has(f) && n.dropped[f] == 0 && n.positions[f] >= n.position
}

// sendsChange reports whether there is a FIN that follower f has not received since the snapshot.
// No change is sent after a gap: it would cover the dropped one, or be refused (see
// sharesBehindGap).
func (n *replica) sendsChange(f uint8) bool {
	return n.told.has(f) && n.dropped[f] == 0 && n.positions[f] < max(n.position, n.handed)
}

// sent returns the newest position that follower f was sent, dropped or not. The
// next answer counts for it.
func (n *replica) sent(f uint8) uint8 {
	return max(n.positions[f], max(n.dropped[f], 1)-1)
}

// drops: the next share for follower f is dropped on its way, for instance because a queue is full.
// The session continues. The leader learns of the error only later.
func (x channel) drops(s *State, r, f uint8) {
	n := &s.nodes[r]
	if !x.of.hears(s, r, f) {
		return
	}
	if !n.told.has(f) {
		t := *s
		m := &t.nodes[r]
		m.told = m.told.with(f)
		m.dropped[f] = 1 + max(n.shot, n.sent(f))
		x.of.emit(&t, Step{DropSnapshot, r, f, n.shot})
	}
	if n.sendsChange(f) {
		t := *s
		p := n.positions[f] + 1
		t.done = t.done.with(n.log[p-1].id())
		t.nodes[r].dropped[f] = 1 + p
		x.of.emit(&t, Step{DropChange, r, f, p})
	}
}

// sharesBehindGap: a change of another channel reaches follower f, which lacks the share before it.
// The change names that share, so f refuses it, and the session ends. The session also ends when
// leader r learns that a request was dropped.
func (x channel) sharesBehindGap(s *State, r, f uint8) {
	n := &s.nodes[r]
	if n.dropped[f] == 0 || !n.told.has(f) || !x.of.hears(s, r, f) {
		return
	}
	t := *s
	if x.of.on(ShareNamesPrevious) {
		t.nodes[f].session = false
		x.of.emit(&t, Step{RefuseShare, r, f, 0})
		return
	}
	m := &t.nodes[r]
	m.positions[f], m.dropped[f] = n.sent(f), 0
	x.of.emit(&t, Step{CountShare, r, f, m.positions[f]})
}
