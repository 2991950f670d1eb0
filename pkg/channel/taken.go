package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Taken is the set of messages in flight with a consumer. Like the State it is not safe for
// concurrent use.
type Taken struct {
	l        *ledger
	consumer uint64
}

// TakenBy returns the messages in flight with a consumer.
func (s *State) TakenBy(consumer uint64) Taken { return Taken{&s.ledger, consumer} }

// Len returns their number.
func (k Taken) Len() int {
	if c := k.find(); c != nil {
		return c.count
	}
	return 0
}

// Offsets returns the offsets in delivery order, as known to the consumer.
func (k Taken) Offsets() []seq.Offset {
	c := k.find()
	if c == nil {
		return nil
	}
	var all []seq.Offset
	slots := k.l.t.slots
	for slot := c.mine.head; slot != 0; slot = slots[slot].next {
		all = append(all, k.l.t.names.name(slots[slot].offset))
	}
	return all
}

// First returns the message that the consumer has had longest, and for how long; false if it has none.
func (k Taken) First(now time.Time) (o seq.Offset, held time.Duration, some bool) {
	c := k.find()
	if c == nil || c.mine.head == 0 {
		return 0, 0, false
	}
	m := &k.l.t.slots[c.mine.head]
	return m.offset, time.Duration(k.l.nanos(now) - m.taken), true
}

// Lost removes a consumer whose connection has ended. Its messages in flight have failed, and it returns their
// number. One that it had alone, company aside, counts as failed, and waits for the backoff; several are shared
// failures, and are ready at once.
func (k Taken) Lost(now time.Time, company bool) int {
	l, c := k.l, k.find()
	if c == nil {
		return 0
	}
	switch slot := c.mine.head; {
	case c.count > 1 || company:
		for ; slot != 0; slot = l.t.slots[slot].next {
			l.t.slots[slot].attempts = l.t.slots[slot].attempts.Share()
		}
	case c.count == 1:
		l.leave(slot)
		again(l, slot, l.nanos(now), 0)
		l.revision++
		return 1 + k.Disconnect()
	}
	return k.Disconnect()
}

// Disconnect removes the consumer. Its messages in flight become ready at once, in delivery order;
// it returns their number.
func (k Taken) Disconnect() int {
	l := k.l
	if l.t == nil {
		return 0
	}
	i, ok := l.t.byID[k.consumer]
	if !ok {
		return 0
	}
	n := l.t.consumers[i].count
	for slot := l.t.consumers[i].mine.head; slot != 0; slot = l.t.consumers[i].mine.head {
		l.leave(slot)
		l.enqueue(slot)
	}
	l.t.isolation.forget(k.consumer)
	l.t.forget(i)
	if n > 0 {
		l.revision++
	}
	return n
}

func (k Taken) find() *consumer {
	if k.l.t == nil {
		return nil
	}
	i, ok := k.l.t.byID[k.consumer]
	if !ok {
		return nil
	}
	return &k.l.t.consumers[i]
}
