package model

// finishes: an ordered channel on leader r. A FIN is sent to the followers
// before the leader applies it, and answered when it is applied.
func (x explorer) finishes(s *State, r uint8) {
	n := &s.nodes[r]
	everywhere := n.position < n.committed
	counted := x.counted(s, r)
	for f := range uint8(replicas) {
		if f == r {
			continue
		}
		if counted.has(f) && n.positions[f] <= n.position {
			everywhere = false
		}
		x.sendsPosition(s, r, f, n.position)
		if n.position < n.committed {
			x.sendsPosition(s, r, f, n.position+1)
		}
	}
	if everywhere || !x.on(FinReplicatedFirst) && n.position < n.committed {
		t := *s
		m := &t.nodes[r]
		m.position++
		t.finished = max(t.finished, m.position)
		x.emit(&t, Step{Finish, r, m.position, 0})
	}
}

func (x explorer) sendsPosition(s *State, r, f, p uint8) {
	n := &s.nodes[r]
	if p <= n.positions[f] || !s.nodes[f].session || s.view(f).leader != r || !x.accepts(s, f, r, n.term) {
		return
	}
	t := *s
	t.nodes[r].positions[f] = p
	g := &t.nodes[f]
	if x.on(PositionWaits) {
		g.position = max(g.position, p)
	} else {
		g.position = max(g.position, min(p, g.end))
	}
	x.emit(&t, Step{SendPosition, r, f, p})
}
