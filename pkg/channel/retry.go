package channel

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// retries is how often and how soon a channel redelivers a message, with counts of the messages
// that this delays. A message has no place when its methods are called.
type retries struct {
	policy    policy.Policy // effective
	spent     int           // number of exhausted messages
	lapsed    int           // number of expired messages
	waiting   int           // number of messages deferred by the backoff
	backedOff uint64        // total number of backoffs
}

// exhausts reports whether a message with that many deliveries is exhausted.
func (r *retries) exhausts(attempts uint16) bool { return r.policy.Exhausts(attempts) }

// delay returns the backoff of a failed message; 0 if none.
func (r *retries) delay(m *message) time.Duration {
	if !r.policy.Backoff.On() || r.exhausts(m.attempts) {
		return 0
	}
	return r.policy.Backoff.Delay(m.attempts, uint64(m.offset))
}

// backOff records that a message was deferred by the backoff.
func (r *retries) backOff(t *tracked, slot int32) {
	t.slots[slot].delayed = byBackoff
	r.waiting++
	r.backedOff++
}

// spend withholds a message without a place if it is exhausted, and reports whether it is.
func (r *retries) spend(t *tracked, slot int32) bool {
	m := &t.slots[slot]
	if !r.exhausts(m.attempts) {
		return false
	}
	m.taken = 0
	if m.owner >= 0 && int(m.owner) < len(t.consumers) {
		m.taken = int64(t.consumers[m.owner].id) //nolint:gosec // what it was made of
	}
	m.place = spent
	t.number(slot)
	t.append(&t.spent, slot)
	r.spent++
	return true
}

// lapse withholds a message without a place, because it has expired.
func (r *retries) lapse(t *tracked, slot int32, consumer uint64) {
	m := &t.slots[slot]
	m.taken, m.place = int64(consumer), lapsed //nolint:gosec // what it was made of
	t.number(slot)
	t.append(&t.lapsed, slot)
	r.lapsed++
}

// Retries is how often a State redelivers a message, with its exhausted messages. It is a view of
// the State; like the State it is not safe for concurrent use.
type Retries struct{ state *State }

// RetriesOf returns the view of a State.
func RetriesOf(s *State) Retries { return Retries{s} }

// Policy returns the effective policy of the channel.
func (r Retries) Policy() policy.Policy { return r.state.retries.policy }

// SetPolicy changes the effective policy. Messages that it permits to redeliver become ready,
// and those that it no longer permits are withheld, both in log order. It visits every tracked
// message if the number of attempts changes.
func (r Retries) SetPolicy(p policy.Policy) {
	s := r.state
	was := s.retries.policy
	s.retries.policy = p
	if was.MaxAttempts == p.MaxAttempts || s.t == nil {
		return
	}
	drawWhere(&s.ledger, 0, seq.MaxOffset+1, func(d position.Deferral) bool { return p.Exhausts(d.Attempts) })
	for slot := 1; slot < len(s.t.slots); slot++ {
		m := &s.t.slots[slot]
		held := m.place == spent
		waits := m.place == ready || m.place == deferred || m.place == barred
		if held && !p.Exhausts(m.attempts) || waits && p.Exhausts(m.attempts) {
			m.owner = -1 // its consumer is no longer known
			s.fall(int32(slot))
		}
	}
	promoteFallen(&s.ledger)
	s.revision++
}

// Park is the first step of a requeue in a channel whose attempts must be stored on other
// replicas before the next delivery: the message leaves the consumer and is deferred until
// Resume, or for timeout. A message that used up its attempts is treated as by Requeue.
func (r Retries) Park(o seq.Offset, consumer uint64, now time.Time, timeout time.Duration) error {
	s := r.state
	slot, err := s.owned(o, consumer)
	if err != nil {
		return err
	}
	m := &s.t.slots[slot]
	s.requeued++
	s.revision++
	s.leave(slot)
	if s.retries.spend(s.t, slot) {
		return nil
	}
	nanos := s.nanos(now)
	s.t.intoDeferred(slot, nanos, addTime(nanos, timeout))
	s.deferred++
	m.delayed = byNote
	return nil
}

// Resume ends the Park at a time: the message is requeued with a delay. A message that is no longer
// parked, or was parked again since, is ignored.
func (r Retries) Resume(o seq.Offset, parked, now time.Time, delay time.Duration) {
	s := r.state
	slot, ok := s.slotOf(o)
	if !ok || s.t.slots[slot].place != deferred || s.t.slots[slot].delayed != byNote || s.t.slots[slot].taken != s.nanos(parked) {
		return
	}
	s.revision++
	nanos := s.nanos(now)
	if delay <= 0 && s.retries.delay(&s.t.slots[slot]) == 0 {
		s.promote(nanos)
	}
	if s.t.slots[slot].place != deferred {
		return // its deferral ended
	}
	s.leave(slot)
	again(s, slot, nanos, delay)
}

// Disposable reports whether Take would return something: exhausted messages, if they do not block,
// and expired ones.
func (r Retries) Disposable() bool {
	at := &r.state.retries
	return at.lapsed > 0 || at.spent > 0 && at.policy.OnExhausted != policy.Block
}

// Expire marks a taken message as expired: it is not sent, which does not count as a delivery, and
// waits for Take. An offset that is not in flight is ignored.
func (r Retries) Expire(o seq.Offset) {
	s := r.state
	slot, ok := s.flying(o)
	if !ok {
		return
	}
	s.untake(slot)
	s.retries.lapse(s.t, slot, 0)
}

// Outlived records that a taken message has expired, and reports whether that is new: it may be
// taken again before it is finished.
func (r Retries) Outlived(o seq.Offset) bool {
	slot, ok := r.state.flying(o)
	if !ok || r.state.t.slots[slot].delayed == outlived {
		return false
	}
	r.state.t.slots[slot].delayed = outlived
	return true
}

// Spent is a message that is exhausted or has expired.
type Spent struct {
	Delivery
	Consumer uint64 // that had it last; 0: no longer known
	Expired  bool   // its time to live has passed
}

// Take appends to out up to max expired or exhausted messages, the earliest first; exhausted ones
// only if they do not block. They are in flight with a consumer until now+timeout. The consumer
// finishes them or calls Keep. This does not count as a delivery. Take also works on a paused
// channel.
func (r Retries) Take(now time.Time, consumer uint64, timeout time.Duration, max int, out []Spent) []Spent {
	s := r.state
	if !r.Disposable() || max <= 0 {
		return out
	}
	nanos, owner := s.nanos(now), s.t.consumerOf(consumer)
	for ; max > 0 && r.Disposable(); max-- {
		slot, expired := s.retries.longest(s.t)
		m := &s.t.slots[slot]
		last := uint64(m.taken) //nolint:gosec // what it was made of
		s.leave(slot)
		s.t.intoFlight(slot, owner, nanos, addTime(nanos, timeout))
		takenOut(&s.ledger, slot)
		s.inFlight++
		out = append(out, Spent{Delivery{m.offset, m.attempts}, last, expired})
	}
	return out
}

// longest returns the message that has been expired, or exhausted without blocking, for the longest
// time. There is one.
func (r *retries) longest(t *tracked) (slot int32, lapsed bool) {
	lapsed = r.lapsed > 0
	if r.spent > 0 && r.policy.OnExhausted != policy.Block {
		lapsed = lapsed && t.slots[t.lapsed.head].due < t.slots[t.spent.head].due
	}
	if lapsed {
		return t.lapsed.head, true
	}
	return t.spent.head, false
}

// First returns the first exhausted message in log order.
func (r Retries) First() (o seq.Offset, ok bool) {
	s := r.state
	if s.retries.spent == 0 {
		return 0, false
	}
	for slot := s.t.spent.head; slot != 0; slot = s.t.slots[slot].next {
		if at := s.t.slots[slot].offset; !ok || at < o {
			o, ok = at, true
		}
	}
	return o, ok
}

// Keep returns a message from Take to its previous state. A message that the consumer no longer
// has is ignored.
func (r Retries) Keep(x Spent, consumer uint64) {
	s := r.state
	slot, err := s.owned(x.Offset, consumer)
	if err != nil {
		return
	}
	s.leave(slot)
	s.revision++
	if x.Expired {
		s.retries.lapse(s.t, slot, x.Consumer)
		return
	}
	s.enqueue(slot)
	if m := &s.t.slots[slot]; m.place == spent {
		m.taken = int64(x.Consumer) //nolint:gosec // what it was made of
	}
}

// again returns a failed message without a place to where it waits for its next delivery.
func again(s *State, slot int32, now int64, delay time.Duration) {
	m := &s.t.slots[slot]
	backoff := s.retries.delay(m)
	switch {
	case delay <= 0 && backoff == 0 || s.retries.exhausts(m.attempts):
		s.enqueue(slot)
	case backoff > delay:
		s.t.intoDeferred(slot, now, addTime(now, backoff))
		s.deferred++
		s.retries.backOff(s.t, slot)
	default:
		putOff(s, slot, now, addTime(now, delay))
	}
}

// enqueueFirst inserts a message without a place at the front of the ready list, likewise.
func enqueueFirst(l *ledger, slot int32) {
	if l.retries.spend(l.t, slot) || bar(l, slot) {
		return
	}
	l.t.intoReadyFront(slot)
	l.ready++
}

// promoteFallen moves messages collected by fall to their places, in log order.
func promoteFallen(l *ledger) {
	if l.t == nil || len(l.t.fallen) == 0 {
		return
	}
	slices.SortFunc(l.t.fallen, func(a, b cell) int { return cmp.Compare(a.offset, b.offset) })
	for _, c := range l.t.fallen {
		l.enqueue(c.slot)
	}
	l.t.fallen = l.t.fallen[:0]
}
