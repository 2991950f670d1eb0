package audit

import "time"

// Disturb is told before something is done to the cluster that may move what it
// does to other nodes: a node killed or paused, a link cut. stall is for how long
// the machine stood still before. It lasts until Calm.
func (a *Audit) Disturb(now, stall time.Duration) {
	a.unrest = append(a.unrest, unrest{from: now, lasts: true, stall: stall})
	a.stats.Stall = max(a.stats.Stall, stall)
	a.stats.Kills++
}

// Calm is told when the cluster has recovered from everything that was done.
func (a *Audit) Calm(now time.Duration) {
	for i := range a.unrest {
		if u := &a.unrest[i]; u.lasts {
			u.to, u.lasts = now, false
		}
	}
}

// disturbed returns the first unrest that may have undone what was done at t, by
// now, where unrest undoes what was done within window before it; nil if there is
// none. With no window it is what was in flight from t to now.
func (a *Audit) disturbed(t, now, window time.Duration) *unrest {
	for i := range a.unrest {
		u := &a.unrest[i]
		until := now
		if !u.lasts {
			until = u.to + a.o.Grace
		}
		began := u.from <= now && (window == 0 || t >= u.from-window-u.stall)
		if began && t <= until {
			return u
		}
	}
	return nil
}

// doubtful keeps a redelivery for which the end of the connection that had the
// message may yet be seen.
func (a *Audit) doubtful(now time.Duration, p *place, kind Kind, text string) bool {
	if a.o.Notice == 0 || a.conns[p.conn].state != connOpen || kind != Twice && kind != Undone {
		return false
	}
	d := doubt{conn: p.conn, at: now, because: CauseDisconnect, mistaken: Violation{kind, now, text}}
	if kind == Undone {
		d.end, d.because = p.endAt, CauseCut
	}
	a.doubts = append(a.doubts, d)
	return true
}

// resolve explains by the end of a connection what was doubtful.
func (a *Audit) resolve(now time.Duration, c int, x *conn) {
	kept := a.doubts[:0]
	for _, d := range a.doubts {
		switch {
		case d.conn != c:
			kept = append(kept, d)
		case now-d.at > a.o.Notice, d.end > 0 && !x.cut(d.end, a.o.Grace+a.o.Notice):
			a.violate(d.mistaken.At, d.mistaken.Kind, "%s", d.mistaken.What)
		default:
			a.stats.Redelivered[d.because]++
		}
	}
	a.doubts = kept
}

// convict counts the doubts that nothing has explained in time.
func (a *Audit) convict(now time.Duration) {
	kept := a.doubts[:0]
	for _, d := range a.doubts {
		if now-d.at <= a.o.Notice {
			kept = append(kept, d)
			continue
		}
		a.violate(d.mistaken.At, d.mistaken.Kind, "%s", d.mistaken.What)
	}
	a.doubts = kept
}
