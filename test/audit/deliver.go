package audit

import (
	"fmt"
	"time"
)

// Deliver reports a message that arrived on connection c: its key, the sum of
// its body as received, and its id.
func (a *Audit) Deliver(now time.Duration, c int, k Key, sum uint64, id ID) {
	a.stats.Delivered++
	m := a.find(k)
	if m == nil {
		a.unexpected(now, k)
		return
	}
	if m.sum != sum {
		a.violate(now, Altered, "%v has another body", k)
		return
	}
	if m.outcome == Rejected {
		a.violate(now, Refused, "%v was delivered", k)
	}
	if m.outcome == Open && !m.stored {
		a.stats.Recovered++
	}
	a.identify(now, k, m, id)
	a.store(now, m)

	if now < m.notBefore-a.o.Tolerance {
		a.violate(now, Early, "%v came %v before its time", k, m.notBefore-now)
	}
	p := &m.places[a.conns[c].channel]
	if p.deliveries > 0 {
		a.redeliver(now, c, k, id, p)
	}
	p.deliveries++
	p.at, p.conn, p.end, p.refused = now, c, inFlight, false
}

// Garbage reports a delivery whose body names no message.
func (a *Audit) Garbage(now time.Duration, what string) {
	a.stats.Delivered++
	a.violate(now, Invented, "%s", what)
}

func (a *Audit) unexpected(now time.Duration, k Key) {
	if k.Producer >= 0 && k.Producer < len(a.producers) && k.Seq >= 0 && k.Seq < a.producers[k.Producer].first {
		a.violate(now, Ancient, "%v was finished everywhere more than %v ago", k, a.o.Keep)
		return
	}
	a.violate(now, Invented, "%v was never published", k)
}

// Renumber reports that each message gets another id, once, as after a recovery of the
// cluster without a quorum.
func (a *Audit) Renumber() { a.renumbered++ }

// identify holds every message to one id, and every id to one message.
func (a *Audit) identify(now time.Duration, k Key, m *message, id ID) {
	if m.id == (ID{}) {
		m.id = id
		if other, taken := a.ids[id]; taken {
			a.violate(now, SharedID, "%v and %v are both %s", k, other, id)
		}
		a.ids[id] = k
		return
	}
	if m.numbering < a.renumbered && m.id != id {
		m.numbering, m.was, m.id = a.renumbered, m.id, id
		a.ids[id] = k
		return
	}
	if m.id != id && m.was != id { // an earlier delivery may be observed late
		a.violate(now, TwoIDs, "%v is both %s and %s", k, m.id, id)
	}
}

// redeliver finds the cause of a redelivery on connection c.
func (a *Audit) redeliver(now time.Duration, c int, k Key, id ID, p *place) {
	cause, kind, why := a.explain(now, c, p)
	p.moved = cause == CauseMove || cause == CauseMoveWindow || p.done && a.undoes(p.endAt, now, a.o.Window) != nil
	if kind == "" {
		a.stats.Redelivered[cause]++
		return
	}
	text := fmt.Sprintf("%v on channel %s, delivered at %.3fs: %s",
		k, a.o.Channels[a.conns[c].channel], p.at.Seconds(), why)
	partition := 0
	if a.o.Partition != nil {
		partition = a.o.Partition(id)
	}
	if d, ok := doubtful(now, a.o.Notice, partition, p, kind, text); ok {
		p.moved = true // until it is judged
		a.doubts = append(a.doubts, d)
		return
	}
	a.violate(now, kind, "%s", text)
}

// explain returns the cause of a redelivery, or the promise that it breaks.
func (a *Audit) explain(now time.Duration, c int, p *place) (Cause, Kind, string) {
	before, after := a.conns[p.conn], a.conns[c]
	killed, wasKilled := a.kills[before.round]
	crashed := wasKilled && after.round > before.round
	late := p.at + a.o.MsgTimeout
	forgettable := crashed && killed.at-p.endAt <= a.o.Window+killed.stall

	switch p.end {
	case inFlight:
		switch {
		case p.refused:
			return CauseRefused, "", ""
		case crashed:
			return CauseKill, "", ""
		case before.state != connOpen || after.round > before.round:
			return CauseDisconnect, "", ""
		case now >= late-a.o.Tolerance:
			return CauseTimeout, "", ""
		case a.undoes(p.at, now, 0) != nil:
			return CauseMove, "", ""
		}
		return "", Twice, "it is still in flight there"

	case requeued:
		// A REQ that may not have been read or remembered leaves the message
		// as it was: in flight.
		forgotten := forgettable || before.cut(p.endAt, a.o.Grace) || a.undoes(p.endAt, now, a.o.Window) != nil
		if now < p.notBefore-a.o.Tolerance && !forgotten {
			return "", Early, fmt.Sprintf("requeued until %.3fs", p.notBefore.Seconds())
		}
		return CauseRequeue, "", ""

	case finished:
		switch {
		case p.endAt >= late:
			return CauseTimeout, "", ""
		case forgettable:
			a.stats.Forgotten = max(a.stats.Forgotten, killed.at-p.endAt)
			return CauseWindow, "", ""
		case before.cut(p.endAt, a.o.Grace):
			return CauseCut, "", ""
		}
		if u := a.undoes(p.endAt, now, a.o.Window); u != nil {
			a.stats.Forgotten = max(a.stats.Forgotten, u.from-p.endAt)
			return CauseMoveWindow, "", ""
		}
		why := fmt.Sprintf("finished at %.3fs", p.endAt.Seconds())
		if wasKilled {
			why += fmt.Sprintf(", the broker was killed at %.3fs", killed.at.Seconds())
		}
		return "", Undone, why
	}
	panic("BUG: a delivery ends in no known way")
}

// cut reports whether data sent on the connection at t may never have arrived.
func (x *conn) cut(t, grace time.Duration) bool {
	return x.state == connCut && x.at-t <= grace
}

// Forget drops the messages at the head of each producer that have been finished everywhere, or
// not been reported, for as long as Keep.
func (a *Audit) Forget(now time.Duration) {
	a.judge(now, 0, nil)
	for i := range a.producers {
		p := &a.producers[i]
		n := 0
		for n < len(p.messages) && p.messages[n].past(now, a.o.Keep) {
			delete(a.ids, p.messages[n].id)
			n++
		}
		p.first += n
		p.messages = append(make([]message, 0, len(p.messages)-n), p.messages[n:]...)
	}
}

// past reports whether m has been at its end for as long as keep.
func (m *message) past(now, keep time.Duration) bool {
	if m.settled == 0 || now-m.settled <= keep {
		return false
	}
	for i := range m.places {
		if m.stored && m.places[i].end != finished {
			return false // it was redelivered
		}
	}
	return true
}

// End is called when no more deliveries can arrive. It finds what is missing.
func (a *Audit) End(now time.Duration) {
	a.judge(now+a.o.Notice+1, 0, nil) // no more deliveries are possible
	for i := range a.producers {
		for j := range a.producers[i].messages {
			a.missing(now, Key{i, a.producers[i].first + j}, &a.producers[i].messages[j])
		}
	}
}

// missing reports what is missing of m.
func (a *Audit) missing(now time.Duration, k Key, m *message) {
	reached := 0
	for i := range m.places {
		if m.places[i].deliveries > 0 {
			reached++
		}
	}
	switch {
	case !m.stored:
		return
	case m.outcome == Acknowledged && reached == 0:
		a.violate(now, Lost, "%v was acknowledged and never delivered", k)
		return
	case reached < len(m.places):
		kind := Half
		if m.outcome == Acknowledged {
			kind = Lost
		}
		a.violate(now, kind, "%v reached %d of %d channels", k, reached, len(m.places))
	}
	for i := range m.places {
		// A message delivered twice because of a disturbance need not be finished twice: the last
		// delivery may be the older one.
		if p := &m.places[i]; p.deliveries > 0 && (!p.done || p.end != finished && !p.moved) {
			a.violate(now, Unfinished, "%v is not finished on channel %s", k, a.o.Channels[i])
		}
	}
}
