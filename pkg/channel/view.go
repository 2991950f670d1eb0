package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/seq"
)

// AdvanceTo finishes everything below logStart, the start of the log. It visits every tracked
// message if the floor moves.
func (s *State) AdvanceTo(logStart seq.Offset) {
	if logStart <= s.floor {
		return
	}
	s.revision++
	if s.t != nil {
		for slot := 1; slot < len(s.t.slots); slot++ {
			if m := &s.t.slots[slot]; m.place != free && m.offset < logStart {
				s.forget(int32(slot))
			}
		}
		s.deferred -= s.t.far.DropBelow(logStart)
	}
	s.floor = logStart
	if s.cursor < logStart {
		s.cursor = logStart
	}
	s.done.DropBelow(logStart)
	s.advanceFloor()
}

// Seek moves the channel to an offset, back or forward. The state of all messages is dropped: all
// messages from there on are delivered again, and answers to older deliveries fail with
// failure.NotInFlight.
func (x Operator) Seek(o seq.Offset) {
	s := x.s
	s.floor, s.cursor, s.done, s.t = o, o, seq.Set{}, nil
	s.recorder.stop()
	if s.keyed != nil {
		s.keyed = newKeyed(o, keyorder.DefaultLimits())
	}
	s.ahead, s.inFlight, s.held, s.ready, s.deferred = 0, 0, 0, 0, 0
	s.retries.spent, s.retries.lapsed, s.retries.waiting = 0, 0, 0
	s.freshTurn = false
	s.revision++
}

// Floor returns the channel's confirmed position: everything below is finished.
func (s *State) Floor() seq.Offset { return s.floor }

// Unfinished returns the first offset, from a given one on, that is not finished.
func Unfinished(s *State, from seq.Offset) seq.Offset { return s.done.NextAbsent(max(from, s.floor)) }

// Cursor returns the offset at which fresh messages start. It is at or above the floor.
func (s *State) Cursor() seq.Offset { return s.cursor }

// Changed returns a number that grows with each change that a checkpoint must store.
func (s *State) Changed() uint64 { return s.revision }

// Counts are a channel's statistics. The unsigned ones only grow.
type Counts struct {
	Depth     int64  // waiting to be delivered: neither in flight nor deferred
	InFlight  int64  // delivered and not answered
	Deferred  int64  // waiting for their due time
	Messages  uint64 // in the log since the start of this State
	Delivered uint64
	Finished  uint64 // by their consumers
	Requeued  uint64
	TimedOut  uint64
	Exhausted int64  // part of Depth: exhausted, and not delivered
	Lapsed    int64  // part of Depth: expired, and not delivered
	Waiting   int64  // part of Deferred: by the channel's backoff
	Barred    int64  // part of Depth: waiting for others with their key, or for their keys to be known
	BackedOff uint64 // deferred by the backoff
}

// Totals returns what the channel has received and finished.
func (c Counts) Totals() flow.Totals { return flow.Totals{In: c.Messages, Out: c.Finished} }

// Counts returns the channel's statistics at a committed end.
func (s *State) Counts(end seq.Offset) Counts {
	c := Counts{
		InFlight: int64(s.inFlight), Deferred: int64(s.deferred),
		Delivered: s.delivered, Finished: s.finished, Requeued: s.requeued, TimedOut: s.timedOut,
		Exhausted: int64(s.retries.spent), Lapsed: int64(s.retries.lapsed), Waiting: int64(s.retries.waiting), BackedOff: s.retries.backedOff,
		Barred: int64(KeyedOf(s).Barred()),
	}
	if end > s.floor {
		unfinished := int64(end-s.floor) - int64(s.done.Len())
		c.Depth = max(0, unfinished-c.InFlight-c.Deferred+hidden(&s.ledger, end))
	}
	if end > s.base {
		c.Messages = uint64(end - s.base)
	}
	return c
}

// MessageState is the state of a message in a channel.
type MessageState uint8

// The states of a message.
const (
	Ready MessageState = iota // waiting to be delivered, for the first time or again
	InFlight
	Deferred
	Finished
	Exhausted // used up its attempts or expired, and is not delivered
)

// String returns the state in the spelling of the interfaces.
func (m MessageState) String() string {
	return [...]string{Ready: "ready", InFlight: "in_flight", Deferred: "deferred", Finished: "finished", Exhausted: "exhausted"}[m]
}

// StateOf returns the state of the message at an offset, and its number of deliveries. The attempts
// of a finished message are not kept: 0.
func (s *State) StateOf(o seq.Offset) (MessageState, uint16) {
	if o < s.floor || s.done.Contains(o) {
		return Finished, 0
	}
	if s.t == nil {
		return Ready, 0
	}
	if d, far := farAt(&s.ledger, o); far {
		return Deferred, d.Attempts
	}
	slot, ok := s.t.index.get(o)
	if !ok {
		return Ready, 0
	}
	m := &s.t.slots[slot]
	switch m.place {
	case inFlight, held:
		return InFlight, m.attempts
	case deferred:
		return Deferred, m.attempts
	case spent, lapsed:
		return Exhausted, m.attempts
	case ready, barred, free:
	}
	return Ready, m.attempts
}

// HasReady reports whether Take would return a message.
func (s *State) HasReady(now time.Time, end seq.Offset) bool {
	if s.paused {
		return false
	}
	s.promote(s.nanos(now))
	if s.keyed != nil {
		_, some := s.firstReady(end)
		return some && !fenced(&s.ledger) || KeyedOf(s).open(end)
	}
	if !s.ordered {
		_, repeated := s.firstReady(end)
		return repeated || s.skip(end)
	}
	if s.inFlight > 0 || s.floor >= end {
		return false
	}
	if s.t != nil {
		if slot, ok := s.t.index.get(s.floor); ok {
			return s.t.slots[slot].place == ready
		}
	}
	return true
}

// Trim releases unused memory if nothing is tracked. Use it for channels that have been idle
// for a while.
func (s *State) Trim() {
	if s.inFlight+s.ready+s.deferred+s.retries.spent+s.retries.lapsed+KeyedOf(s).Barred() == 0 {
		s.t = nil
		if s.keyed != nil {
			s.keyed.lines = keyorder.New(keyorder.DefaultLimits())
		}
	}
	if s.done.Empty() {
		s.done = seq.Set{}
	}
}
