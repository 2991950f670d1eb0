package channel

import (
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// The steps that State's methods are made of.

func (s *State) track() *tracked {
	if s.t == nil {
		s.t = newTracked()
	}
	return s.t
}

// known says whether an offset is finished or tracked.
func (s *State) known(o seq.Offset) bool {
	if o < s.floor || s.done.Contains(o) {
		return true
	}
	if s.t == nil {
		return false
	}
	_, ok := s.t.index.get(o)
	return ok
}

// meet starts to track an offset at or above the cursor before the cursor comes
// to it.
func (s *State) meet(o seq.Offset, attempts uint16) int32 {
	s.ahead++
	return s.track().add(o, min(attempts, MaxAttempts))
}

// flying returns the slot of an offset that is in flight.
func (s *State) flying(o seq.Offset) (int32, bool) {
	if s.t == nil {
		return 0, false
	}
	slot, ok := s.t.index.get(o)
	return slot, ok && s.t.slots[slot].place == inFlight
}

// owned returns the slot of an offset that is in flight with the consumer.
func (s *State) owned(o seq.Offset, consumer uint64) (int32, error) {
	slot, ok := s.flying(o)
	if !ok {
		return 0, ErrNotInFlight
	}
	if s.t.consumers[s.t.slots[slot].owner].id != consumer {
		return 0, ErrNotOwner
	}
	return slot, nil
}

// leave takes a message out of its place and keeps the counts.
func (s *State) leave(slot int32) {
	switch s.t.slots[slot].place {
	case inFlight:
		s.inFlight--
	case ready:
		s.ready--
	case deferred:
		s.deferred--
	case free:
	}
	s.t.leave(slot)
}

// enqueue puts a message that is nowhere at the end of the ready list.
func (s *State) enqueue(slot int32) {
	s.t.intoReady(slot)
	s.ready++
}

// untake takes a message out of flight as if it had never been delivered.
func (s *State) untake(slot int32) {
	s.leave(slot)
	s.t.slots[slot].attempts--
	s.delivered--
	s.revision++
}

// forget stops tracking a message, wherever it is.
func (s *State) forget(slot int32) {
	s.leave(slot)
	if s.t.slots[slot].offset >= s.cursor {
		s.ahead--
	}
	s.t.remove(slot)
}

// finish stops tracking a message and moves the floor if it was there.
func (s *State) finish(slot int32) {
	o := s.t.slots[slot].offset
	s.forget(slot)
	s.revision++
	if o != s.floor {
		s.done.Add(o)
		return
	}
	s.floor++
	s.settle()
}

// settle moves the floor over what is finished beyond it.
func (s *State) settle() {
	if !s.done.Empty() {
		s.floor = s.done.NextAbsent(s.floor)
		s.done.DropBelow(s.floor)
	}
	s.cursor = max(s.cursor, s.floor)
}

// promote makes the deferred messages ready that are due.
func (s *State) promote(now int64) {
	if s.deferred == 0 {
		return
	}
	for {
		e, ok := s.t.earliest(&s.t.deferrals)
		if !ok || e.at > now {
			return
		}
		s.leave(e.slot)
		s.enqueue(e.slot)
	}
}

// addTime returns at+d, at most the end of time.
func addTime(at int64, d time.Duration) int64 {
	if d > 0 && at > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return at + int64(d)
}
