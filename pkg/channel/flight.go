package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Flight is a message in flight with a consumer, in the form in which one leader tells the next.
// Its times are durations: the clocks of two nodes have nothing in common.
type Flight struct {
	Offset   seq.Offset
	Name     seq.Offset // the offset by which its consumer knows it: see Copy
	Attempts seq.Attempts
	Alone    bool          // it is isolated
	Rest     time.Duration // until it times out; not positive: it has
	Held     time.Duration // since its delivery
}

// Flights returns the messages at now, in delivery order.
func (k Taken) Flights(now time.Time) []Flight {
	c := k.find()
	if c == nil {
		return nil
	}
	l, nanos := k.l, k.l.nanos(now)
	all := make([]Flight, 0, c.count)
	for slot := c.mine.head; slot != 0; slot = l.t.slots[slot].next {
		m := &l.t.slots[slot]
		all = append(all, Flight{
			Offset: m.offset, Name: l.t.names.name(m.offset), Attempts: m.attempts, Alone: l.t.isolation.slot == slot,
			Rest: subTime(m.due, nanos), Held: subTime(nanos, m.taken),
		})
	}
	return all
}

// Inherit puts messages in flight with the consumer that were in flight with it at the previous
// leader at now, and returns their number. The restored position has them as delivered and not
// finished; messages that it does not have so are left as they are. Call it before SetOrder and
// SetPolicy of the Operator, which treat what is in flight.
func (k Taken) Inherit(all []Flight, now time.Time) (n int) {
	l := k.l
	for _, f := range all {
		slot, ok := l.t.find(f.Offset)
		if !ok || l.t.slots[slot].place != ready && l.t.slots[slot].place != keyBlocked {
			continue
		}
		l.leave(slot)
		nanos := l.nanos(now)
		l.t.intoFlight(slot, l.t.consumerOf(k.consumer), addTime(nanos, -max(f.Held, 0)), addTime(nanos, f.Rest))
		takenOut(l, slot)
		l.inFlight++
		if f.Name != f.Offset {
			l.t.names.add(f.Name, f.Offset)
		}
		m := &l.t.slots[slot]
		m.attempts = m.attempts.Later(f.Attempts)
		if f.Alone && l.t.isolation.slot == 0 {
			l.t.isolation.slot = slot
		}
		n++
	}
	if n > 0 {
		l.revision++
	}
	return n
}

// Has reports whether the consumer has a message in flight.
func (k Taken) Has(o seq.Offset) bool {
	_, err := k.l.owned(o, k.consumer)
	return err == nil
}
