package channel

import (
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Delivery is a message returned by Take.
type Delivery struct {
	Offset   seq.Offset
	Attempts uint16 // deliveries, this one included; at most MaxAttempts
}

// State is the delivery state of one channel on one partition. It is not safe for concurrent
// use. Its methods take time independent of the number of messages in flight or deferred unless
// documented otherwise. Only differences between the given times matter, by their monotonic
// readings if present: wall clock changes have no effect. Time must not run backwards by more
// than the precision required of timeouts.
type State struct {
	ledger
	mode
	freshTurn bool // the last delivery was a redelivery
	lot       Lot  // for which Take was called
	timeline
}

// New returns the state of a channel that starts at an offset, ordered or not. SetOrder changes
// it to order by key.
func New(start seq.Offset, ordered bool) *State {
	return &State{ledger: ledger{floor: start, cursor: start, base: start}, mode: mode{ordered: ordered}}
}

// Restore returns the state of a checkpoint. Messages that were in flight or ready are ready;
// deferred ones are due as recorded, and no later than their own delay after now. wall is the
// wall clock of the checkpoint's creator at now, in ns since 1970.
func Restore(p position.Position, ordered bool, now time.Time, wall int64) *State {
	return restore(New(p.Floor, ordered), p, now, wall)
}

// restore initializes a new State from a position.
func restore(s *State, p position.Position, now time.Time, wall int64) *State {
	s.align(now, wall)
	for _, r := range p.Finished {
		s.done.AddRange(max(r.From, p.Floor), r.End)
	}
	s.advanceFloor()
	makeRoom(s, &p, now, wall)
	for _, a := range p.Attempted {
		if !s.known(a.Offset) {
			slot := s.meet(a.Offset, a.Attempts)
			s.enqueue(slot)
		}
	}
	for d := range p.Deferred.All() {
		switch {
		case s.known(d.Offset):
		case d.Delay == 0:
			slot := s.meet(d.Offset, d.Attempts)
			s.enqueue(slot)
			s.t.slots[slot].delayed = advanced
		default:
			due := addTime(s.nanos(now), min(subTime(d.At, wall), d.Delay))
			taken := int64(subTime(due, int64(d.Delay)))
			if time.Duration(due-taken) == d.Delay && farEnough(s, s.nanos(now), due) {
				s.track().tell(d.Offset)
				s.t.far.Add(position.Deferral{Offset: d.Offset, At: due, Delay: d.Delay, Attempts: min(d.Attempts, position.MaxAttempts)})
			} else {
				s.track().intoDeferred(s.meet(d.Offset, d.Attempts), taken, due)
			}
			s.deferred++
		}
	}
	return s
}

// makeRoom reserves memory for the tracked messages of a position.
func makeRoom(s *State, p *position.Position, now time.Time, wall int64) {
	n, inOrder, last := 0, true, int64(math.MinInt64)
	for d := range p.Deferred.All() {
		if !farEnough(s, s.nanos(now), addTime(s.nanos(now), min(subTime(d.At, wall), d.Delay))) {
			n++
			inOrder, last = inOrder && d.At >= last, d.At
		}
	}
	if all := len(p.Attempted) + n; all > 0 {
		s.track().reserve(all)
		s.t.deferrals.reserve(n, inOrder)
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
	if s.paused || max <= 0 {
		return out
	}
	nanos := s.nanos(now)
	if s.ready == 0 || s.ordered { // otherwise due messages come after others: the more become due together, the better
		s.promote(nanos)
	}
	owner := int32(-1)
	for ; max > 0; max-- {
		slot, ok := s.candidate(end)
		if !ok {
			break
		}
		if owner < 0 {
			owner = s.t.consumerOf(consumer)
		}
		m := &s.t.slots[slot]
		if m.attempts < position.MaxAttempts {
			m.attempts++
		}
		s.t.intoFlight(slot, owner, nanos, addTime(nanos, timeout))
		takenOut(&s.ledger, slot)
		s.inFlight++
		s.delivered++
		s.revision++
		out = append(out, Delivery{m.offset, m.attempts})
	}
	return out
}

// candidate removes the next message to deliver from its place.
func (s *State) candidate(end seq.Offset) (int32, bool) {
	if s.ordered {
		return s.orderedCandidate(end)
	}
	if fenced(&s.ledger) {
		return 0, false
	}
	sorting := Sorting{s}
	if slot, ok := sorting.own(end); ok {
		s.leave(slot)
		return slot, true
	}
	if s.lot != 0 && sorting.Full() {
		return 0, false
	}
	slot, repeated := s.firstReady(end)
	fresh := s.keyed == nil && s.skip(end) // a message ordered by key is ready once its key is known
	if repeated {
		first := s.t.slots[slot].attempts == 0 // returned, or due: it has waited as long as fresh ones
		if first || !fresh || !s.freshTurn {
			s.freshTurn = !first || s.freshTurn
			s.leave(slot)
			return slot, true
		}
	}
	if !fresh {
		return 0, false
	}
	s.freshTurn = false
	return s.fresh(), true
}

// orderedCandidate returns the floor, unless a message is in flight or the floor is deferred.
func (s *State) orderedCandidate(end seq.Offset) (int32, bool) {
	if s.inFlight > 0 || s.floor >= end {
		return 0, false
	}
	if s.t != nil {
		if slot, ok := s.t.index.get(s.floor); ok {
			if m := &s.t.slots[slot]; m.place != ready || m.due > 0 && Lot(m.due) != s.lot {
				return 0, false
			}
			s.leave(slot)
			return slot, true
		}
	}
	return s.fresh(), true // the floor is neither finished nor tracked: it is the cursor
}

// Finish finishes a message on behalf of its consumer.
func (s *State) Finish(o seq.Offset, consumer uint64) error {
	slot, err := s.owned(o, consumer)
	if err != nil {
		return err
	}
	s.finished++
	s.finish(slot)
	return nil
}

// Requeue requeues a message, to be delivered again after the delay, or the channel's backoff if
// that is longer. On an ordered channel later messages wait as long. An exhausted message is not
// delivered again, whatever the delay.
func (s *State) Requeue(o seq.Offset, consumer uint64, now time.Time, delay time.Duration) error {
	slot, err := s.owned(o, consumer)
	if err != nil {
		return err
	}
	s.requeued++
	s.revision++
	nanos := s.nanos(now)
	m := &s.t.slots[slot]
	if delay <= 0 && s.retries.delay(m) == 0 || s.retries.exhausts(m.attempts) {
		s.promote(nanos)
	}
	s.leave(slot)
	again(s, slot, nanos, delay)
	return nil
}

// Touch extends a message's deadline to now+timeout, but at most to maxTotal after its delivery.
func (s *State) Touch(o seq.Offset, consumer uint64, now time.Time, timeout, maxTotal time.Duration) error {
	slot, err := s.owned(o, consumer)
	if err != nil {
		return err
	}
	m := &s.t.slots[slot]
	s.t.deadlines.stale++ // the event of the previous deadline
	s.t.setDeadline(slot, min(addTime(s.nanos(now), timeout), addTime(m.taken, maxTotal)))
	return nil
}

// Defer applies a publisher's delay to a message. It is for messages that were just committed
// (at or above the cursor), and for those just taken and read: these leave the consumer, and
// the delivery does not count. Others are not changed.
func (s *State) Defer(o seq.Offset, now time.Time, delay time.Duration) {
	nanos := s.nanos(now)
	due := addTime(nanos, delay)
	if s.t != nil {
		if slot, ok := s.t.index.get(o); ok {
			if s.t.slots[slot].place == inFlight {
				s.untake(slot)
				putOff(s, slot, nanos, due)
			}
			return
		}
	}
	if o < s.cursor || s.done.Contains(o) || isFar(&s.ledger, o) {
		return
	}
	postpone(s, o, 0, nanos, due)
	s.revision++
}

// putOff defers a message without a place and without an alias.
func putOff(s *State, slot int32, now, due int64) {
	s.deferred++
	m := s.t.slots[slot]
	if !farEnough(s, now, due) {
		s.t.intoDeferred(slot, now, due)
		return
	}
	if m.offset >= s.cursor {
		s.ahead--
	}
	s.t.remove(slot)
	s.t.far.Add(position.Deferral{Offset: m.offset, At: due, Delay: time.Duration(due - now), Attempts: m.attempts})
}

// UndoTake undoes Take for a message that was not sent: it is delivered again before all others and
// the delivery does not count. Return several in reverse order, last taken first. An offset that is
// not in flight is ignored.
func (s *State) UndoTake(o seq.Offset) {
	slot, ok := s.flying(o)
	if !ok {
		return
	}
	s.untake(slot)
	enqueueFirst(&s.ledger, slot)
}

// Drop finishes a taken but unsent message that was sampled out or deleted by retention. The
// delivery does not count. An offset that is not in flight is ignored.
func (s *State) Drop(o seq.Offset) {
	slot, ok := s.flying(o)
	if !ok {
		return
	}
	s.delivered--
	s.finish(slot)
}

// Expire makes ready, in log order, the messages in flight whose deadline is not after now and the
// deferred ones that are due. It calls timedOut for each of the former, in order of time, and
// returns their number. timedOut may be nil and must not use the State.
func (s *State) Expire(now time.Time, timedOut func(consumer uint64, o seq.Offset)) int {
	if s.t == nil {
		return 0
	}
	n, nanos := 0, s.nanos(now)
	for {
		e, ok := s.t.earliest(&s.t.deadlines)
		if !ok || e.at > nanos {
			break
		}
		m := &s.t.slots[e.slot]
		o, consumer := m.offset, s.t.consumers[m.owner].id
		if backoff := s.retries.delay(m); backoff > 0 {
			s.leave(e.slot)
			again(s, e.slot, nanos, 0)
		} else {
			s.fall(e.slot)
		}
		n++
		if timedOut != nil {
			timedOut(consumer, o)
		}
	}
	s.promote(nanos)
	if n > 0 {
		s.timedOut += uint64(n)
		s.revision++
	}
	return n
}

// NextEvent returns when Expire has something to do next.
func (s *State) NextEvent() (time.Time, bool) {
	if s.t == nil {
		return time.Time{}, false
	}
	at := int64(math.MaxInt64)
	deadline, some := s.t.earliest(&s.t.deadlines)
	if some {
		at = deadline.at
	}
	due, more := s.t.earliest(&s.t.deferrals)
	if more {
		at = min(at, due.at)
	}
	if f := &s.t.far; f.Len() > 0 {
		at, more = min(at, addTime(f.Due(), -soonOf(&s.ledger))), true
	}
	if !some && !more {
		return time.Time{}, false
	}
	return s.moment(at), true
}
