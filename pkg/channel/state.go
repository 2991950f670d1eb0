package channel

import (
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Delivery is a message returned by Take.
type Delivery struct {
	Offset   seq.Offset
	Attempts uint16 // deliveries, this one included; at most seq.MaxAttempts
	Alone    bool   // the message is isolated: see Isolation
}

// State is the delivery state of one channel on one partition. It is not safe for concurrent
// use. Its methods take time independent of the number of messages in flight or deferred unless
// documented otherwise. Only differences between the given times matter, by their monotonic
// readings if present: wall clock changes have no effect. Time must not run backwards by more
// than the precision required of timeouts.
type State struct {
	ledger ledger
	Paused bool // nothing is delivered; messages in flight stay so, and time out
	// Company reports whether a consumer's client has messages in flight other than those of this State;
	// nil: no client has.
	Company func(consumer uint64) bool
}

// New returns the state of a channel that starts at an offset, ordered or not. Operator.SetOrder
// changes it to order by key.
func New(start seq.Offset, ordered bool) *State {
	return &State{ledger: ledger{floor: start, cursor: start, base: start, ordered: ordered}}
}

// Restore returns the state of a checkpoint. Messages that were in flight or ready are ready;
// deferred ones are due as recorded, and no later than their own delay after now. wall is the
// wall clock of the checkpoint's creator at now, in ns since 1970.
func Restore(p position.Position, ordered bool, now time.Time, wall int64) *State {
	s := New(p.Floor, ordered)
	restore(&s.ledger, p, now, wall)
	return s
}

// restore initializes a new ledger from a position.
func restore(l *ledger, p position.Position, now time.Time, wall int64) {
	l.align(now, wall)
	for _, r := range p.Finished {
		l.done.AddRange(max(r.From, p.Floor), r.End)
	}
	l.advanceFloor()
	makeRoom(l, &p, now, wall)
	for _, a := range p.Attempted {
		if !l.known(a.Offset) {
			slot := l.trackAhead(a.Offset, a.Attempts)
			l.enqueue(slot)
		}
	}
	for d := range p.Deferred.All() {
		switch {
		case l.known(d.Offset):
		case d.Delay == 0:
			slot := l.trackAhead(d.Offset, d.Attempts)
			l.enqueue(slot)
			l.t.slots[slot].delayed = advanced
		default:
			due := addTime(l.nanos(now), min(subTime(d.At, wall), d.Delay))
			taken := int64(subTime(due, int64(d.Delay)))
			if time.Duration(due-taken) == d.Delay && farEnough(l, l.nanos(now), due) {
				l.track().markEarly(d.Offset)
				l.t.far.Add(position.Deferral{Offset: d.Offset, At: due, Delay: d.Delay, Attempts: d.Attempts})
			} else {
				l.track().intoDeferred(l.trackAhead(d.Offset, d.Attempts), taken, due)
			}
			l.deferred++
		}
	}
}

// makeRoom reserves memory for the tracked messages of a position.
func makeRoom(l *ledger, p *position.Position, now time.Time, wall int64) {
	n, inOrder, last := 0, true, int64(math.MinInt64)
	for d := range p.Deferred.All() {
		if !farEnough(l, l.nanos(now), addTime(l.nanos(now), min(subTime(d.At, wall), d.Delay))) {
			n++
			inOrder, last = inOrder && d.At >= last, d.At
		}
	}
	if all := len(p.Attempted) + n; all > 0 {
		l.track().reserve(all)
		l.t.deferrals.reserve(n, inOrder)
	}
}

// Take appends to out up to max messages below end, the committed end, and returns it. They are in
// flight with the consumer until now+timeout. Repeated messages (requeued, timed out, due after a
// deferral; first the one that is ready longest, and in the order of the log those that fell due
// together) and fresh ones alternate while there are both; a repeated one that was never delivered
// goes first. An ordered channel delivers its floor, and nothing while something is in flight. One
// that orders by key delivers messages known not to follow an unfinished message of its key: see
// Keyed. A paused channel delivers nothing.
func (s *State) Take(now time.Time, consumer uint64, timeout time.Duration, max int, end seq.Offset, out []Delivery) []Delivery {
	l := &s.ledger
	if s.Paused || max <= 0 {
		return out
	}
	nanos := l.nanos(now)
	if l.ready == 0 || l.ordered { // otherwise due messages come after others: the more become due together, the better
		l.promote(nanos)
	}
	owner := int32(-1)
	alone, only := s.isolate(consumer, nanos, end)
	for ; max > 0 && (!only || alone != 0); max-- {
		slot, ok := alone, only
		if !only {
			slot, ok = l.candidate(end)
		}
		if !ok {
			if alone, only = s.noOthers(consumer, nanos, end); alone != 0 {
				max++
				continue
			}
			break
		}
		if owner < 0 {
			owner = l.t.consumerOf(consumer)
		}
		m := &l.t.slots[slot]
		m.attempts = m.attempts.Delivered()
		l.t.intoFlight(slot, owner, nanos, addTime(nanos, timeout))
		takenOut(l, slot)
		l.inFlight++
		l.delivered++
		l.revision++
		out = append(out, Delivery{m.offset, m.attempts.Deliveries(), only})
		if only {
			l.t.isolation.slot = slot
			break
		}
		l.t.isolation.others = false
	}
	return out
}

// candidate removes the next message to deliver from its place.
func (l *ledger) candidate(end seq.Offset) (int32, bool) {
	if l.ordered {
		return l.orderedCandidate(end)
	}
	if fenced(l) {
		return 0, false
	}
	if slot, ok := ofLot(l, end); ok {
		l.leave(slot)
		return slot, true
	}
	if l.lot != 0 && lotsFull(l) {
		return 0, false
	}
	slot, repeated := l.firstReady(end)
	fresh := l.keyed == nil && l.skip(end) // a message ordered by key is ready once its key is known
	if repeated {
		first := l.t.slots[slot].attempts == 0 // returned, or due: it has waited as long as fresh ones
		if first || !fresh || !l.freshTurn {
			l.freshTurn = !first || l.freshTurn
			l.leave(slot)
			return slot, true
		}
	}
	if !fresh {
		return 0, false
	}
	l.freshTurn = false
	return l.fresh(), true
}

// orderedCandidate returns the floor, unless a message is in flight or the floor is deferred.
func (l *ledger) orderedCandidate(end seq.Offset) (int32, bool) {
	if l.inFlight > 0 || l.floor >= end {
		return 0, false
	}
	if slot, ok := l.t.find(l.floor); ok {
		if m := &l.t.slots[slot]; m.place != ready || m.due > 0 && Lot(m.due) != l.lot || m.due <= isolated {
			return 0, false
		}
		l.leave(slot)
		return slot, true
	}
	return l.fresh(), true // the floor is neither finished nor tracked: it is the cursor
}

// Finish finishes a message on behalf of its consumer.
func (s *State) Finish(o seq.Offset, consumer uint64) error {
	l := &s.ledger
	slot, err := l.owned(o, consumer)
	if err != nil {
		return err
	}
	l.finished++
	l.finish(slot)
	return nil
}

// Requeue requeues a message, to be delivered again after the delay, or the channel's backoff if
// that is longer. On an ordered channel later messages wait as long. An exhausted message is not
// delivered again, whatever the delay.
func (s *State) Requeue(o seq.Offset, consumer uint64, now time.Time, delay time.Duration) error {
	l := &s.ledger
	slot, err := l.owned(o, consumer)
	if err != nil {
		return err
	}
	l.requeued++
	l.revision++
	nanos := l.nanos(now)
	m := &l.t.slots[slot]
	if delay <= 0 && l.retries.delay(m) == 0 || l.retries.exhausts(m.attempts) {
		l.promote(nanos)
	}
	l.leave(slot)
	again(l, slot, nanos, delay)
	return nil
}

// Touch extends a message's deadline to now+timeout, but at most to maxTotal after its delivery.
func (s *State) Touch(o seq.Offset, consumer uint64, now time.Time, timeout, maxTotal time.Duration) error {
	l := &s.ledger
	slot, err := l.owned(o, consumer)
	if err != nil {
		return err
	}
	m := &l.t.slots[slot]
	l.t.deadlines.stale++ // the event of the previous deadline
	l.t.setDeadline(slot, min(addTime(l.nanos(now), timeout), addTime(m.taken, maxTotal)))
	return nil
}

// Defer applies a publisher's delay to a message. It is for messages that were just committed
// (at or above the cursor), and for those just taken and read: these leave the consumer, and
// the delivery does not count. Others are not changed.
func (s *State) Defer(o seq.Offset, now time.Time, delay time.Duration) {
	l := &s.ledger
	nanos := l.nanos(now)
	due := addTime(nanos, delay)
	if slot, ok := l.t.find(o); ok {
		if l.t.slots[slot].place == inFlight {
			l.untake(slot)
			putOff(l, slot, nanos, due)
		}
		return
	}
	if o < l.cursor || l.done.Contains(o) || isFar(l, o) {
		return
	}
	postpone(l, o, 0, nanos, due)
	l.revision++
}

// putOff defers a message without a place and without an alias.
func putOff(l *ledger, slot int32, now, due int64) {
	l.deferred++
	m := l.t.slots[slot]
	if !farEnough(l, now, due) {
		l.t.intoDeferred(slot, now, due)
		return
	}
	if m.offset >= l.cursor {
		l.ahead--
	}
	l.t.remove(slot)
	l.t.far.Add(position.Deferral{Offset: m.offset, At: due, Delay: time.Duration(due - now), Attempts: m.attempts})
}

// UndoTake undoes Take for a message that was not sent: it is delivered again before all others and
// the delivery does not count. Return several in reverse order, last taken first. An offset that is
// not in flight is ignored.
func (s *State) UndoTake(o seq.Offset) {
	l := &s.ledger
	slot, ok := l.findInFlight(o)
	if !ok {
		return
	}
	l.untake(slot)
	enqueueFirst(l, slot)
}

// Drop finishes a taken but unsent message that was sampled out or deleted by retention. The
// delivery does not count. An offset that is not in flight is ignored.
func (s *State) Drop(o seq.Offset) {
	l := &s.ledger
	slot, ok := l.findInFlight(o)
	if !ok {
		return
	}
	l.delivered--
	l.finish(slot)
}

// Expire makes ready, in log order, the messages in flight whose deadline is not after now and the
// deferred ones that are due. It calls timedOut for each of the former, in order of time, and
// returns their number. timedOut may be nil and must not use the State.
func (s *State) Expire(now time.Time, timedOut func(consumer uint64, o seq.Offset)) int {
	l := &s.ledger
	if l.t == nil {
		return 0
	}
	n, nanos := 0, l.nanos(now)
	for {
		e, ok := l.t.earliest(&l.t.deadlines)
		if !ok || e.at > nanos {
			break
		}
		m := &l.t.slots[e.slot]
		o, consumer := m.offset, l.t.consumers[m.owner].id
		if s.shares(e.slot) {
			m.attempts = m.attempts.Share()
		}
		if backoff := l.retries.delay(m); backoff > 0 {
			l.leave(e.slot)
			again(l, e.slot, nanos, 0)
		} else {
			l.collect(e.slot)
		}
		n++
		if timedOut != nil {
			timedOut(consumer, o)
		}
	}
	l.promote(nanos)
	if n > 0 {
		l.timedOut += uint64(n)
		l.revision++
	}
	return n
}

// NextEvent returns when Expire has something to do next.
func (s *State) NextEvent() (time.Time, bool) {
	l := &s.ledger
	if l.t == nil {
		return time.Time{}, false
	}
	at := int64(math.MaxInt64)
	deadline, some := l.t.earliest(&l.t.deadlines)
	if some {
		at = deadline.at
	}
	due, more := l.t.earliest(&l.t.deferrals)
	if more {
		at = min(at, due.at)
	}
	if f := &l.t.far; f.Len() > 0 {
		at, more = min(at, addTime(f.Due(), -soonOf(l))), true
	}
	if !some && !more {
		return time.Time{}, false
	}
	return l.moment(at), true
}

// AdvanceTo finishes everything below logStart, the start of the log. It visits every tracked
// message if the floor moves.
func (s *State) AdvanceTo(logStart seq.Offset) {
	l := &s.ledger
	if logStart <= l.floor {
		return
	}
	l.revision++
	if l.t != nil {
		for slot := 1; slot < len(l.t.slots); slot++ {
			if m := &l.t.slots[slot]; m.place != free && m.offset < logStart {
				l.forget(int32(slot))
			}
		}
		l.deferred -= l.t.far.DropBelow(logStart)
	}
	l.floor = logStart
	if l.cursor < logStart {
		l.cursor = logStart
	}
	l.done.DropBelow(logStart)
	l.advanceFloor()
}

// HasReady reports whether Take would return a message.
func (s *State) HasReady(now time.Time, end seq.Offset) bool {
	l := &s.ledger
	if s.Paused {
		return false
	}
	l.promote(l.nanos(now))
	if l.keyed != nil {
		_, some := l.firstReady(end)
		return (some || l.isolatedWaits(end)) && !fenced(l) || open(l, end)
	}
	if !l.ordered {
		_, repeated := l.firstReady(end)
		return repeated || l.skip(end) || l.isolatedWaits(end)
	}
	if l.inFlight > 0 || l.floor >= end {
		return false
	}
	slot, ok := l.t.find(l.floor)
	return !ok || l.t.slots[slot].place == ready
}

// Trim releases unused memory if nothing is tracked. Use it for channels that have been idle
// for a while.
func (s *State) Trim() {
	l := &s.ledger
	if l.inFlight+l.ready+l.deferred+int(l.retries.exhausted+l.retries.expired)+blockedBy(l) == 0 {
		l.t = nil
		if l.keyed != nil {
			l.keyed.lines = keyorder.New(keyorder.DefaultLimits())
		}
	}
	if l.done.Empty() {
		l.done = seq.Set{}
	}
}
