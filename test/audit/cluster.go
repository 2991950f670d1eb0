package audit

import "time"

// turmoil is the periods in which the cluster was disturbed, in the order in
// which they began.
type turmoil struct {
	all   []unrest
	grace time.Duration // how much longer than until Calm a disturbance lasts
	moves []move        // in the order in which they were noticed
}

// move is a change of a partition's leader, when it was noticed.
type move struct {
	at        time.Duration
	partition int
}

// Move reports that a partition was seen to have another leader, or the same in
// another epoch: what is in flight then is redelivered, even in an orderly
// change. Options.Partition is needed.
func (t *turmoil) Move(now time.Duration, partition int) {
	t.moves = append(t.moves, move{now, partition})
}

// moved reports whether a partition's leader changed between two times.
func (t *turmoil) moved(partition int, from, to time.Duration) bool {
	for i := range t.moves {
		if m := &t.moves[i]; m.partition == partition && from <= m.at && m.at <= to {
			return true
		}
	}
	return false
}

// unrest is a time in which something was done to the cluster.
type unrest struct {
	from, to time.Duration
	lasts    bool // to is not known yet
}

// Disturb is called before a disturbance that may move leaderships to other
// nodes: a node killed or paused, a link cut. The disturbance lasts until Calm.
func (t *turmoil) Disturb(now time.Duration) {
	t.all = append(t.all, unrest{from: now, lasts: true})
}

// Calm reports that the cluster has recovered from all disturbances.
func (t *turmoil) Calm(now time.Duration) {
	for i := range t.all {
		if u := &t.all[i]; u.lasts {
			u.to, u.lasts = now, false
		}
	}
}

// undoes returns the first unrest, by now, that may have undone an action at x, if unrest undoes
// actions within window before it; nil if there is none. Without a window, it concerns messages in
// flight from x to now.
func (t *turmoil) undoes(x, now, window time.Duration) *unrest {
	for i := range t.all {
		u := &t.all[i]
		until := now
		if !u.lasts {
			until = u.to + t.grace
		}
		began := u.from <= now && (window == 0 || x >= u.from-window)
		if began && x <= until {
			return u
		}
	}
	return nil
}

// doubt is a redelivery that the end of a connection, or a change of the leader,
// may yet explain.
type doubt struct {
	conn, partition int
	at              time.Duration // of the redelivery
	before          time.Duration // of the delivery before it
	end             time.Duration // of the FIN or REQ before it, 0: none
	because         Cause
	mistaken        Violation
}

// doubtful records a redelivery whose cause may be observed later.
func doubtful(now, notice time.Duration, partition int, p *place, kind Kind, text string) (doubt, bool) {
	if notice == 0 {
		return doubt{}, false
	}
	d := doubt{conn: p.conn, partition: partition, at: now, before: p.at, because: CauseDisconnect, mistaken: Violation{kind, now, text}}
	if kind != Twice {
		d.end, d.because = p.endAt, CauseCut
	}
	return d, true
}

// explained reports whether the end of the doubt's connection explains it.
func (d *doubt) explained(now time.Duration, x *conn, o *Options) bool {
	return now-d.at <= o.Notice && (d.end == 0 || x.cut(d.end, o.Grace+o.Notice))
}

// excused reports whether the partition of a doubt got another leader, which is observed a little
// later: messages in flight are then redelivered, and so are those finished or requeued within the
// window.
func (d *doubt) excused(t *turmoil, o *Options) bool {
	if d.end == 0 {
		return t.moved(d.partition, d.before, d.at+o.Notice)
	}
	return t.moved(d.partition, d.end-o.Notice, min(d.at, d.end+o.Window)+o.Notice)
}

// judge resolves the doubts about a connection that has ended, and those whose time has expired.
// Without a connection, only the latter.
func (a *Audit) judge(now time.Duration, c int, x *conn) {
	kept := a.doubts[:0]
	for i := range a.doubts {
		d := &a.doubts[i]
		switch {
		case x != nil && d.conn == c && d.explained(now, x, &a.o):
			a.stats.Redelivered[d.because]++
		case now-d.at <= a.o.Notice:
			kept = append(kept, *d)
		case d.excused(&a.turmoil, &a.o) && d.end == 0:
			a.stats.Redelivered[CauseMoved]++
		case d.excused(&a.turmoil, &a.o):
			a.stats.Redelivered[CauseMovedWindow]++
		default:
			a.violate(d.mistaken.At, d.mistaken.Kind, "%s", d.mistaken.What)
		}
	}
	a.doubts = kept
}
