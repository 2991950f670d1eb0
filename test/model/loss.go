package model

// crashes: a node is killed and started again, its machine loses power, or it
// loses its disk. Its memory is lost. It starts with no metadata and applies it
// again, version by version, unless it has a loss to register first.
func (x explorer) crashes(s *State, r uint8) {
	n := &s.nodes[r]
	if int(s.crashes) >= x.Crashes || n.adopted == 0 && n.end == 0 && n.lost == intact {
		return
	}
	x.restarts(s, r, n.lost.afterKill(x.on(LossUntilTold)), Step{Kill, r, 0, 0})
	for keep := n.durable; keep <= n.end; keep++ {
		if keep < n.end || x.Positions {
			x.losesPower(s, r, keep)
		}
	}
	recovery{x}.damages(s, r)
	if x.Disks && n.lost == intact {
		t := *s
		t.nodes[r] = replica{applied: n.applied, adopted: n.adopted}
		t.disks++
		x.restarts(&t, r, lostDirectory, Step{LoseDirectory, r, 0, 0})
		t.nodes[r].adopted = 0
		lost := lostDisk
		if !x.on(EmptyLeaves) {
			lost = intact
		}
		x.restarts(&t, r, lost, Step{LoseDisk, r, 0, 0})
	}
}

// losesPower: the log keeps its first keep records. The positions noted since
// the last store are kept all or not at all.
func (x explorer) losesPower(s *State, r, keep uint8) {
	t := *s
	n := &t.nodes[r]
	n.cut(keep)
	lost := n.lost.afterKill(x.on(LossUntilTold))
	if lost == intact && x.on(BootRule) && (!x.SyncAlways || x.Positions && x.on(OrderedBootRule)) {
		lost = lostUnsynced
	}
	step := Step{PowerCut, r, keep, 0}
	x.restarts(&t, r, lost, step)
	if n.noted != n.stored {
		n.noted = n.stored
		step.C = 1 + n.stored
		x.restarts(&t, r, lost, step)
	}
}

// afterKill returns the knowledge of a loss after another start. A node repeats
// its report until the metadata has applied it, and a replica without its
// directory knows this for as long as another node may count on it.
func (l loss) afterKill(remembered bool) loss {
	switch {
	case !remembered:
		return intact
	case l == missing:
		return lostDirectory
	}
	return l
}

// restarts starts node r again, with the rest of its disk in s.
func (x explorer) restarts(s *State, r uint8, lost loss, step Step) {
	t := *s
	t.crashes++
	n := &t.nodes[r]
	n.lost = lost
	n.applied, n.session = 0, false
	n.closeTerm()
	n.unverified = x.Damage != NoDamage && n.end > 0
	if !x.on(PersistEpoch) {
		n.adopted = 0
	}
	if lost != intact {
		n.taken = 0
	}
	if x.Alone && x.on(ForgetBeyondEnd) {
		n.noted, n.stored = min(n.noted, n.end), min(n.stored, n.end)
	}
	n.position = n.noted
	if x.Alone {
		n.position = min(n.position, n.end)
	}
	x.emit(&t, step)
}

// registers: a node that has lost data returns and reports the loss. In one change of the metadata
// it leaves the ISR and leads no more; the only member of an ISR leaves the partition offline, for
// an operator to decide. The node then acts on that version and later ones. A node that does not
// know of its loss, a missing directory, detects it when the metadata says that it is in sync.
func (x explorer) registers(s *State, r uint8) {
	n, d := &s.nodes[r], s.latest()
	if n.registered() {
		return
	}
	if n.lost == lostEnd || n.lost == olderDisk {
		recovery{x}.reports(s, r)
		return
	}
	t := *s
	m := &t.nodes[r]
	last := d.isr == one(r)
	leaves := n.lost != lostDirectory && (d.isr.has(r) || d.leader == r)
	switch {
	case leaves && int(s.version) >= x.Versions:
		return
	case leaves && x.Alone:
		d.epoch++
		x.decide(&t, d)
		t.accept(n.end, n.position)
	case leaves && (!last || n.lost != lostDisk || x.on(LastLeaves)):
		if d.leader == r {
			d.leader = noLeader
		}
		d.isr = d.isr.without(r)
		x.decide(&t, d)
	}
	m.lost = intact
	if n.lost == lostDirectory && d.isr.has(r) && x.on(MissingIsSilent) {
		m.lost = missing
	}
	t.lives[r]++
	if x.on(RegisterFirst) {
		m.applied = t.version
		m.adopted = max(m.adopted, d.epoch)
		if leaves && x.Alone { // it is about to lead in the new epoch
			m.applied, m.adopted = t.version-1, n.adopted
		}
	}
	x.emit(&t, Step{Register, r, uint8(d.isr), uint8(n.lost)})
}

// accept makes the observer accept the losses of the only copy: records from
// end on, and what was finished from position on.
func (s *State) accept(end, position uint8) {
	for i := end; i < maxLog; i++ {
		s.acked = s.acked.without(s.truth[i].id())
		s.truth[i] = 0
	}
	s.finished, s.delivered = min(s.finished, position), min(s.delivered, position)
}
