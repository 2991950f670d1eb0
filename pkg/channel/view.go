package channel

import (
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// View is what can be read of a State, which it does not change. Like the State it is not safe for
// concurrent use.
type View struct{ l *ledger }

// View returns the view.
func (s *State) View() View { return View{&s.ledger} }

// Floor returns the channel's confirmed position: everything below is finished.
func (v View) Floor() seq.Offset { return v.l.floor }

// NextUnfinished returns the first offset, from a given one on, that is not finished.
func (v View) NextUnfinished(from seq.Offset) seq.Offset {
	return v.l.done.NextAbsent(max(from, v.l.floor))
}

// Cursor returns the offset at which fresh messages start. It is at or above the floor.
func (v View) Cursor() seq.Offset { return v.l.cursor }

// Changed returns a number that grows with each change that a checkpoint must store.
func (v View) Changed() uint64 { return v.l.revision }

// Order returns the delivery order of the channel.
func (v View) Order() policy.Order {
	switch {
	case v.l.keyed != nil:
		return policy.ByKey
	case v.l.ordered:
		return policy.Strict
	}
	return policy.Unordered
}

// Confirms reports whether a message is ordered: its finish counts only once other replicas know
// it, and it keeps its offset. In a channel ordered by key, messages without a key are not ordered.
func (v View) Confirms(o seq.Offset) bool {
	if v.l.keyed == nil {
		return v.l.ordered
	}
	return Keyed(v).MayHaveKey(o)
}

// Current returns the current offset of a message that a consumer knows by an offset.
func (v View) Current(o seq.Offset) seq.Offset {
	if v.l.t == nil {
		return o
	}
	return v.l.t.names.current(o)
}

// InFlight returns how many messages are in flight, held ones included.
func (v View) InFlight() int { return v.l.inFlight }

// Counts are a channel's statistics. The unsigned ones only grow.
type Counts struct {
	Depth      int64  // waiting to be delivered: neither in flight nor deferred
	InFlight   int64  // delivered and not answered
	Deferred   int64  // waiting for their due time
	Messages   uint64 // in the log since the start of this State
	Delivered  uint64
	Finished   uint64 // by their consumers
	Requeued   uint64
	TimedOut   uint64
	Exhausted  int64  // part of Depth: exhausted, and not delivered
	Expired    int64  // part of Depth: expired, and not delivered
	BackingOff int64  // part of Deferred: by the channel's backoff
	BackedOff  uint64 // deferred by the backoff
}

// Totals returns what the channel has received and finished.
func (c Counts) Totals() flow.Totals { return flow.Totals{In: c.Messages, Out: c.Finished} }

// Counts returns the channel's statistics at a committed end.
func (v View) Counts(end seq.Offset) Counts {
	l := v.l
	c := Counts{
		InFlight: int64(l.inFlight), Deferred: int64(l.deferred),
		Delivered: l.delivered, Finished: l.finished, Requeued: l.requeued, TimedOut: l.timedOut,
		Exhausted: int64(l.retries.exhausted), Expired: int64(l.retries.expired), BackingOff: int64(l.retries.waiting), BackedOff: l.retries.backedOff,
	}
	if end > l.floor {
		unfinished := int64(end-l.floor) - int64(l.done.Len())
		c.Depth = max(0, unfinished-c.InFlight-c.Deferred+hidden(l, end))
	}
	if end > l.base {
		c.Messages = uint64(end - l.base)
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
func (v View) StateOf(o seq.Offset) (MessageState, uint16) {
	l := v.l
	if o < l.floor || l.done.Contains(o) {
		return Finished, 0
	}
	if d, far := farAt(l, o); far {
		return Deferred, d.Attempts.Deliveries()
	}
	slot, ok := l.t.find(o)
	if !ok {
		return Ready, 0
	}
	m := &l.t.slots[slot]
	switch m.place {
	case inFlight, held:
		return InFlight, m.attempts.Deliveries()
	case deferred:
		return Deferred, m.attempts.Deliveries()
	case exhausted, expired:
		return Exhausted, m.attempts.Deliveries()
	case ready, keyBlocked, free:
	}
	return Ready, m.attempts.Deliveries()
}

// Attempts returns how often an unfinished message has been delivered, and how that ended.
func (v View) Attempts(o seq.Offset) seq.Attempts {
	if d, far := farAt(v.l, o); far {
		return d.Attempts
	}
	if slot, ok := v.l.t.find(o); ok {
		return v.l.t.slots[slot].attempts
	}
	return 0
}
