package audit

import "time"

// turmoil is the times in which something was done to the cluster, in the order
// in which they began.
type turmoil struct {
	all   []unrest
	grace time.Duration // how much longer than it is told it lasts
}

// unrest is a time in which something was done to the cluster.
type unrest struct {
	from, to time.Duration
	lasts    bool // to is not known yet
	stall    time.Duration
}

// Disturb is told before something is done to the cluster that may move what it
// does to other nodes: a node killed or paused, a link cut. stall is for how long
// the machine stood still before. It lasts until Calm.
func (t *turmoil) Disturb(now, stall time.Duration) {
	t.all = append(t.all, unrest{from: now, lasts: true, stall: stall})
}

// Calm is told when the cluster has recovered from everything that was done.
func (t *turmoil) Calm(now time.Duration) {
	for i := range t.all {
		if u := &t.all[i]; u.lasts {
			u.to, u.lasts = now, false
		}
	}
}

// longest is the longest time for which the machine stood still.
func (t *turmoil) longest() time.Duration {
	stall := time.Duration(0)
	for i := range t.all {
		stall = max(stall, t.all[i].stall)
	}
	return stall
}

// undoes returns the first unrest that may have undone what was done at x, by now,
// where unrest undoes what was done within window before it; nil if there is none.
// With no window it is what was in flight from x to now.
func (t *turmoil) undoes(x, now, window time.Duration) *unrest {
	for i := range t.all {
		u := &t.all[i]
		until := now
		if !u.lasts {
			until = u.to + t.grace
		}
		began := u.from <= now && (window == 0 || x >= u.from-window-u.stall)
		if began && x <= until {
			return u
		}
	}
	return nil
}

// doubt is a redelivery that the end of a connection may yet explain.
type doubt struct {
	conn     int
	at, end  time.Duration // of the redelivery; of the FIN before it, 0: none
	because  Cause
	mistaken Violation
}

// doubtful makes a doubt of a redelivery for which the end of the connection that
// had the message may yet be seen.
func doubtful(now, notice time.Duration, had *conn, p *place, kind Kind, text string) (doubt, bool) {
	if notice == 0 || had.state != connOpen || kind != Twice && kind != Undone {
		return doubt{}, false
	}
	d := doubt{conn: p.conn, at: now, because: CauseDisconnect, mistaken: Violation{kind, now, text}}
	if kind == Undone {
		d.end, d.because = p.endAt, CauseCut
	}
	return d, true
}

// explained tells whether the end of the doubt's connection explains it.
func (d *doubt) explained(now time.Duration, x *conn, o *Options) bool {
	return now-d.at <= o.Notice && (d.end == 0 || x.cut(d.end, o.Grace+o.Notice))
}

// judge ends the doubts about a connection that has ended, and those whose time is
// over. With no connection it is only these.
func (a *Audit) judge(now time.Duration, c int, x *conn) {
	kept := a.doubts[:0]
	for i := range a.doubts {
		d := &a.doubts[i]
		switch {
		case x != nil && d.conn == c && d.explained(now, x, &a.o):
			a.stats.Redelivered[d.because]++
		case x != nil && d.conn == c, now-d.at > a.o.Notice:
			a.violate(d.mistaken.At, d.mistaken.Kind, "%s", d.mistaken.What)
		default:
			kept = append(kept, *d)
		}
	}
	a.doubts = kept
}
