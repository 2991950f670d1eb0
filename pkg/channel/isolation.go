package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

const (
	// suspectFrom is the number of shared failures from which a message is isolated: delivered to a consumer
	// that has no other message meanwhile, so that it is known whether it fails.
	suspectFrom = 3
	// isolated is what a ready message that is isolated has in place of its lot, less the lot.
	isolated = -2
	// reservePatience is how long a consumer without messages may be reserved and take none, before another
	// one is reserved.
	reservePatience = time.Second
)

// isolation holds the ready messages that are isolated, and delivers them one at a time. A consumer that has
// messages is reserved: it gets no others until it has none. Between two isolated messages others have their turn.
// The messages count as ready.
type isolation struct {
	list     list
	n        int   // in the list
	slot     int32 // of the isolated message in flight; 0: none
	reserved bool
	consumer uint64 // that is reserved
	since    int64  // when it was, in ns on the timeline
	others   bool   // other messages are next
}

// add adds a message without a place, for the consumers of a lot (0: all), if it must be isolated, and reports
// whether it did. One that has failed alone comes first.
func (x *isolation) add(t *tracked, slot int32, lot Lot) bool {
	m := &t.slots[slot]
	if m.attempts.Shared() < suspectFrom {
		return false
	}
	m.place, m.due = ready, isolated-int64(lot)
	x.n++
	if m.attempts.Charged() > 0 {
		t.prepend(&x.list, slot)
	} else {
		t.append(&x.list, slot)
	}
	return true
}

// left records that a message has left its consumer.
func (x *isolation) left(slot int32) {
	if x.slot == slot {
		x.slot, x.others = 0, true
	}
}

// forget ends the reservation of a consumer.
func (x *isolation) forget(consumer uint64) {
	if x.consumer == consumer {
		x.reserved = false
	}
}

// merge makes the isolated messages those of all consumers, whatever their lot.
func (x *isolation) merge(t *tracked) {
	for slot := x.list.head; slot != 0; slot = t.slots[slot].next {
		t.slots[slot].due = isolated
	}
}

// first returns the isolated message that the current lot gets next; 0: none.
func (x *isolation) first(l *ledger, end seq.Offset) int32 {
	for slot := x.list.head; slot != 0; slot = l.t.slots[slot].next {
		m := &l.t.slots[slot]
		if m.offset < end && (m.due == isolated || l.lot == Lot(isolated-m.due)) && (!l.ordered || m.offset == l.floor && l.inFlight == 0) {
			return slot
		}
	}
	return 0
}

// isolate decides what a consumer may take: an isolated message only (slot 0: nothing), or others.
func (s *State) isolate(consumer uint64, now int64, end seq.Offset) (slot int32, only bool) {
	l := &s.ledger
	if l.t == nil {
		return 0, false
	}
	x := &l.t.isolation
	if x.n == 0 && x.slot == 0 {
		x.reserved = false
		return 0, false
	}
	if x.slot != 0 {
		return 0, l.t.consumers[l.t.slots[x.slot].owner].id == consumer
	}
	mine := x.reserved && x.consumer == consumer
	slot = x.first(l, end)
	if slot == 0 || fenced(l) || x.others && !l.ordered {
		x.reserved = x.reserved && !mine
		return 0, false
	}
	if !s.accompanied(consumer) {
		x.reserved = false
		l.leave(slot)
		return slot, true
	}
	if !x.reserved || !mine && now-x.since > int64(reservePatience) && (Taken{l, x.consumer}).Len() == 0 {
		x.reserved, x.consumer, x.since, mine = true, consumer, now, true
	}
	return 0, mine
}

// noOthers is called when a consumer finds no other messages: then an isolated one need not let them pass.
func (s *State) noOthers(consumer uint64, now int64, end seq.Offset) (slot int32, only bool) {
	if t := s.ledger.t; t == nil || !t.isolation.others {
		return 0, false
	}
	s.ledger.t.isolation.others = false
	return s.isolate(consumer, now, end)
}

// accompanied reports whether a consumer has messages in flight, here or elsewhere.
func (s *State) accompanied(consumer uint64) bool {
	return s.TakenBy(consumer).Len() > 0 || s.Company != nil && s.Company(consumer)
}

// shares reports whether a message that times out may have failed because of another one: its consumer has others,
// or had during its delivery.
func (s *State) shares(slot int32) bool {
	t := s.ledger.t
	m := &t.slots[slot]
	c := &t.consumers[m.owner]
	return !c.disposes && (c.count > 1 || m.event <= c.joint || s.Company != nil && s.Company(c.id))
}

// isolatedOf returns how many ready messages are isolated.
func isolatedOf(l *ledger) int {
	if l.t == nil {
		return 0
	}
	return l.t.isolation.n
}

// isolatedWaits reports whether a consumer without messages would get an isolated one.
func (l *ledger) isolatedWaits(end seq.Offset) bool {
	return isolatedOf(l) > 0 && l.t.isolation.slot == 0 && l.t.isolation.first(l, end) != 0
}

// Isolation is the messages that have failed with others: from the third time on they are delivered one at a time,
// each to a consumer that has no other message meanwhile, until they are finished or exhausted. Like the State it is
// not safe for concurrent use.
type Isolation struct{ l *ledger }

// Isolation returns the view.
func (s *State) Isolation() Isolation { return Isolation{&s.ledger} }

// Holds reports whether a consumer gets nothing before it has answered what it has: it has an isolated message, or is
// reserved for one.
func (x Isolation) Holds(consumer uint64) bool {
	if x.l.t == nil {
		return false
	}
	at := &x.l.t.isolation
	if at.slot != 0 {
		return x.l.t.consumers[x.l.t.slots[at.slot].owner].id == consumer
	}
	return at.reserved && at.consumer == consumer && at.n > 0
}

// Suspects are the messages that are isolated.
type Suspects struct {
	Count    int
	Offset   seq.Offset // of the first: the one in flight, or that is next
	InFlight bool       // it is in flight
	Failed   uint16     // how often it has failed alone, or was requeued
}

// Suspects returns the isolated messages that are ready or in flight.
func (x Isolation) Suspects() (s Suspects) {
	if x.l.t == nil {
		return s
	}
	at := &x.l.t.isolation
	slot := at.list.head
	if s.Count = at.n; at.slot != 0 {
		slot, s.InFlight = at.slot, true
		s.Count++
	}
	if slot != 0 {
		m := &x.l.t.slots[slot]
		s.Offset, s.Failed = m.offset, m.attempts.Charged()
		if s.InFlight {
			s.Failed--
		}
	}
	return s
}
