package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// ledger keeps the state of all offsets and their counts. The methods of State and of the types that
// show parts of it consist of its methods.
type ledger struct {
	floor  seq.Offset // everything below is finished
	cursor seq.Offset // everything at or above is fresh, or tracked and counted in ahead
	base   seq.Offset // where the count of messages starts
	done   seq.Set    // finished beyond the floor
	t      *tracked   // nil if no message is tracked

	recorder *Recorder // nil: changes are not recorded

	ahead    int // tracked offsets at or above the cursor
	inFlight int // including held ones
	held     int
	ready    int
	deferred int
	retries  retries
	keyed    *keyed        // nil: messages are not ordered by key
	nearby   time.Duration // replaces soon; 0: soon

	timeline
	ordered   bool // one message at a time
	freshTurn bool // the last delivery was a redelivery
	lot       Lot  // for which Take was called

	delivered, finished, requeued, timedOut, revision uint64
}

func (l *ledger) track() *tracked {
	if l.t == nil {
		l.t = newTracked()
	}
	return l.t
}

// known reports whether an offset is finished or tracked.
func (l *ledger) known(o seq.Offset) bool {
	if o < l.floor || l.done.Contains(o) {
		return true
	}
	_, ok := l.t.find(o)
	return ok || l.t != nil && l.t.far.Had(o)
}

// trackAhead starts to track an offset at or above the cursor before the cursor reaches it.
func (l *ledger) trackAhead(o seq.Offset, attempts seq.Attempts) int32 {
	l.ahead++
	l.recorder.add(o)
	l.track().markEarly(o)
	return l.t.add(o, attempts)
}

// findInFlight returns the slot of an offset that is in flight.
func (l *ledger) findInFlight(o seq.Offset) (int32, bool) {
	if l.t == nil {
		return 0, false
	}
	slot, ok := l.t.index.get(l.t.names.current(o))
	return slot, ok && l.t.slots[slot].place == inFlight
}

// owned returns the slot of an offset that is in flight with the consumer.
func (l *ledger) owned(o seq.Offset, consumer uint64) (int32, error) {
	slot, ok := l.findInFlight(o)
	if !ok {
		return 0, failure.NotInFlight
	}
	if l.t.consumers[l.t.slots[slot].owner].id != consumer {
		return 0, errNotOwner
	}
	return slot, nil
}

// leave removes a message from its place and updates the counts.
func (l *ledger) leave(slot int32) {
	l.recorder.add(l.t.slots[slot].offset)
	switch l.t.slots[slot].place {
	case inFlight:
		l.inFlight--
	case held:
		l.inFlight--
		l.held--
	case ready:
		l.ready--
	case deferred:
		l.deferred--
		m := &l.t.slots[slot]
		if m.delayed == byBackoff {
			l.retries.waiting--
		}
		m.delayed = byClient
	case exhausted:
		l.retries.exhausted--
	case expired:
		l.retries.expired--
	case keyBlocked:
		l.keyed.blocked--
	case free:
	}
	was := l.t.slots[slot].place
	l.t.leave(slot)
	if was == inFlight || was == held {
		broughtBack(l, slot)
	}
}

// enqueue appends a message without a place to the ready list, unless it is exhausted, waits for its key,
// or is isolated.
func (l *ledger) enqueue(slot int32) {
	if l.retries.withhold(l.t, slot) || block(l, slot) {
		return
	}
	l.ready++
	if l.t.isolation.add(l.t, slot, 0) {
		return
	}
	l.t.intoReady(slot)
}

// untake returns a message from flight as if it had never been delivered. A message that was taken
// and not delivered may have no attempt.
func (l *ledger) untake(slot int32) {
	l.leave(slot)
	if m := &l.t.slots[slot]; m.attempts > 0 {
		m.attempts = m.attempts.Undelivered()
		l.delivered--
	}
	l.revision++
}

// forget stops tracking a message in any place.
func (l *ledger) forget(slot int32) {
	l.leave(slot)
	if l.t.slots[slot].offset >= l.cursor {
		l.ahead--
	}
	depart(l, slot)
	l.t.remove(slot)
}

// finish stops tracking a message, if it is tracked, and moves the floor.
func (l *ledger) finish(slot int32) {
	o := l.t.slots[slot].offset
	l.forget(slot)
	l.revision++
	if o != l.floor {
		l.done.Add(o)
		return
	}
	l.floor++
	l.advanceFloor()
}

// advanceFloor moves the floor over finished offsets.
func (l *ledger) advanceFloor() {
	if !l.done.Empty() {
		l.floor = l.done.NextAbsent(l.floor)
		l.done.DropBelow(l.floor)
	}
	if l.t != nil {
		l.t.far.Forget(l.floor)
	}
	l.cursor = max(l.cursor, l.floor)
}

// promote makes deferred messages ready that are due, and messages collected by collect.
func (l *ledger) promote(now int64) {
	drawSoon(l, now)
	for l.deferred > 0 {
		e, ok := l.t.earliest(&l.t.deferrals)
		if !ok || e.at > now {
			break
		}
		l.collect(e.slot)
		l.revision++
	}
	promoteCollected(l)
}

// collect removes a message from its place, for promote to make it ready.
func (l *ledger) collect(slot int32) {
	l.leave(slot)
	l.t.collected = append(l.t.collected, cell{l.t.slots[slot].offset, slot})
}

// skip moves the cursor over finished and tracked offsets and reports whether there is a fresh
// message below end.
func (l *ledger) skip(end seq.Offset) bool {
	for l.cursor < end {
		if !l.done.Empty() && l.done.Contains(l.cursor) {
			l.cursor = l.done.NextAbsent(l.cursor)
			continue
		}
		if l.ahead == 0 && (l.t == nil || l.t.far.Len() == 0) {
			return true
		}
		if _, ok := l.t.index.get(l.cursor); ok {
			l.ahead--
		} else if !l.t.far.Had(l.cursor) {
			return true
		}
		l.cursor++
	}
	return false
}

// fresh starts to track the message at the cursor and advances the cursor.
func (l *ledger) fresh() int32 {
	l.recorder.add(l.cursor)
	slot := l.track().add(l.cursor, 0)
	l.cursor++
	return slot
}
