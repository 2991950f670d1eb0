package channel

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// retries is how often and how soon a channel redelivers a message, with counts of the messages
// that this delays. A message has no place when its methods are called.
type retries struct {
	policy    policy.Policy // effective
	exhausted int32         // number of exhausted messages
	expired   int32         // number of expired messages
	waiting   int           // number of messages deferred by the backoff
	backedOff uint64        // total number of backoffs
}

// exhausts reports whether a message with these deliveries is exhausted.
func (r *retries) exhausts(attempts seq.Attempts) bool { return r.policy.Exhausts(attempts.Charged()) }

// delay returns the backoff of a failed message; 0 if none.
func (r *retries) delay(m *message) time.Duration {
	if !r.policy.Backoff.On() || r.exhausts(m.attempts) {
		return 0
	}
	return r.policy.Backoff.Delay(max(1, m.attempts.Charged()), uint64(m.offset))
}

// backOff records that a message was deferred by the backoff.
func (r *retries) backOff(t *tracked, slot int32) {
	t.slots[slot].delayed = byBackoff
	r.waiting++
	r.backedOff++
}

// withhold withholds a message without a place if it is exhausted, and reports whether it did.
func (r *retries) withhold(t *tracked, slot int32) bool {
	m := &t.slots[slot]
	if !r.exhausts(m.attempts) {
		return false
	}
	m.taken = 0
	if m.owner >= 0 && int(m.owner) < len(t.consumers) {
		m.taken = int64(t.consumers[m.owner].id) //nolint:gosec // what it was made of
	}
	m.place = exhausted
	t.number(slot)
	t.append(&t.exhausted, slot)
	r.exhausted++
	return true
}

// expire withholds a message without a place, because it has expired.
func (r *retries) expire(t *tracked, slot int32, consumer uint64) {
	m := &t.slots[slot]
	m.taken, m.place = int64(consumer), expired //nolint:gosec // what it was made of
	t.number(slot)
	t.append(&t.expired, slot)
	r.expired++
}

// Retries is how often a State redelivers a message, with its exhausted messages. Like the State it
// is not safe for concurrent use.
type Retries struct{ l *ledger }

// Retries returns the view.
func (s *State) Retries() Retries { return Retries{&s.ledger} }

// Policy returns the effective policy of the channel.
func (r Retries) Policy() policy.Policy { return r.l.retries.policy }

// Park is the first step of a requeue in a channel whose attempts must be stored on other
// replicas before the next delivery: the message leaves the consumer and is deferred until
// Resume, or for timeout. A message that used up its attempts is treated as by Requeue.
func (r Retries) Park(o seq.Offset, consumer uint64, now time.Time, timeout time.Duration) error {
	l := r.l
	slot, err := l.owned(o, consumer)
	if err != nil {
		return err
	}
	m := &l.t.slots[slot]
	l.requeued++
	l.revision++
	l.leave(slot)
	if l.retries.withhold(l.t, slot) {
		return nil
	}
	nanos := l.nanos(now)
	l.t.intoDeferred(slot, nanos, addTime(nanos, timeout))
	l.deferred++
	m.delayed = byRecording
	return nil
}

// Parked reports whether a message is parked, and the backoff that Resume will apply.
func (r Retries) Parked(o seq.Offset) (backoff time.Duration, parked bool) {
	slot, ok := r.l.t.find(o)
	if !ok || r.l.t.slots[slot].place != deferred || r.l.t.slots[slot].delayed != byRecording {
		return 0, false
	}
	return r.l.retries.delay(&r.l.t.slots[slot]), true
}

// Resume ends the Park at a time: the message is requeued with a delay. A message that is no longer
// parked, or was parked again since, is ignored.
func (r Retries) Resume(o seq.Offset, parked, now time.Time, delay time.Duration) {
	l := r.l
	slot, ok := l.slotOf(o)
	if !ok || l.t.slots[slot].place != deferred || l.t.slots[slot].delayed != byRecording || l.t.slots[slot].taken != l.nanos(parked) {
		return
	}
	l.revision++
	nanos := l.nanos(now)
	if delay <= 0 && l.retries.delay(&l.t.slots[slot]) == 0 {
		l.promote(nanos)
	}
	if l.t.slots[slot].place != deferred {
		return // its deferral ended
	}
	l.leave(slot)
	again(l, slot, nanos, delay)
}

// Disposable reports whether Take would return something: exhausted messages, if they do not block,
// and expired ones.
func (r Retries) Disposable() bool {
	at := &r.l.retries
	return at.expired > 0 || at.exhausted > 0 && at.policy.OnExhausted != policy.Block
}

// Expire marks a taken message as expired: it is not sent, which does not count as a delivery, and
// waits for Take. An offset that is not in flight is ignored.
func (r Retries) Expire(o seq.Offset) {
	l := r.l
	slot, ok := l.findInFlight(o)
	if !ok {
		return
	}
	l.untake(slot)
	l.retries.expire(l.t, slot, 0)
}

// MarkExpired records that a taken message has expired, and reports whether that is new: it may be
// taken again before it is finished.
func (r Retries) MarkExpired(o seq.Offset) bool {
	slot, ok := r.l.findInFlight(o)
	if !ok || r.l.t.slots[slot].delayed == markedExpired {
		return false
	}
	r.l.t.slots[slot].delayed = markedExpired
	return true
}

// Undeliverable is a message that is exhausted or has expired.
type Undeliverable struct {
	Delivery
	Consumer uint64 // that had it last; 0: no longer known
	Expired  bool   // its time to live has passed
}

// Take appends to out up to max expired or exhausted messages, the earliest first; exhausted ones
// only if they do not block. They are in flight with a consumer until now+timeout. The consumer
// finishes them or calls Keep. This does not count as a delivery. Take also works on a paused
// channel.
func (r Retries) Take(now time.Time, consumer uint64, timeout time.Duration, max int, out []Undeliverable) []Undeliverable {
	l := r.l
	if !r.Disposable() || max <= 0 {
		return out
	}
	nanos, owner := l.nanos(now), l.t.consumerOf(consumer)
	l.t.consumers[owner].disposes = true
	for ; max > 0 && r.Disposable(); max-- {
		slot, late := l.retries.longest(l.t)
		m := &l.t.slots[slot]
		last := uint64(m.taken) //nolint:gosec // what it was made of
		l.leave(slot)
		l.t.intoFlight(slot, owner, nanos, addTime(nanos, timeout))
		takenOut(l, slot)
		l.inFlight++
		out = append(out, Undeliverable{Delivery{Offset: m.offset, Attempts: m.attempts.Deliveries()}, last, late})
	}
	return out
}

// longest returns the message that has been expired, or exhausted without blocking, for the longest
// time. There is one.
func (r *retries) longest(t *tracked) (slot int32, late bool) {
	late = r.expired > 0
	if r.exhausted > 0 && r.policy.OnExhausted != policy.Block {
		late = late && t.slots[t.expired.head].due < t.slots[t.exhausted.head].due
	}
	if late {
		return t.expired.head, true
	}
	return t.exhausted.head, false
}

// First returns the first exhausted message in log order.
func (r Retries) First() (o seq.Offset, ok bool) {
	l := r.l
	if l.retries.exhausted == 0 {
		return 0, false
	}
	for slot := l.t.exhausted.head; slot != 0; slot = l.t.slots[slot].next {
		if at := l.t.slots[slot].offset; !ok || at < o {
			o, ok = at, true
		}
	}
	return o, ok
}

// Keep returns a message from Take to its previous state. A message that the consumer no longer
// has is ignored.
func (r Retries) Keep(x Undeliverable, consumer uint64) {
	l := r.l
	slot, err := l.owned(x.Offset, consumer)
	if err != nil {
		return
	}
	l.leave(slot)
	l.revision++
	if x.Expired {
		l.retries.expire(l.t, slot, x.Consumer)
		return
	}
	l.enqueue(slot)
	if m := &l.t.slots[slot]; m.place == exhausted {
		m.taken = int64(x.Consumer) //nolint:gosec // what it was made of
	}
}

// again returns a failed message without a place to where it waits for its next delivery.
func again(l *ledger, slot int32, now int64, delay time.Duration) {
	m := &l.t.slots[slot]
	backoff := l.retries.delay(m)
	switch {
	case delay <= 0 && backoff == 0 || l.retries.exhausts(m.attempts):
		l.enqueue(slot)
	case backoff > delay:
		l.t.intoDeferred(slot, now, addTime(now, backoff))
		l.deferred++
		l.retries.backOff(l.t, slot)
	default:
		putOff(l, slot, now, addTime(now, delay))
	}
}

// enqueueFirst inserts a message without a place at the front of the ready list, likewise.
func enqueueFirst(l *ledger, slot int32) {
	if l.retries.withhold(l.t, slot) || block(l, slot) {
		return
	}
	l.ready++
	if l.t.isolation.add(l.t, slot, 0) {
		return
	}
	l.t.intoReadyFront(slot)
}

// promoteCollected moves messages collected by collect to their places, in log order.
func promoteCollected(l *ledger) {
	if l.t == nil || len(l.t.collected) == 0 {
		return
	}
	slices.SortFunc(l.t.collected, func(a, b cell) int { return cmp.Compare(a.offset, b.offset) })
	for _, c := range l.t.collected {
		l.enqueue(c.slot)
	}
	l.t.collected = l.t.collected[:0]
}
