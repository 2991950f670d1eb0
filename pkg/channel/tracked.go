package channel

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// place is where a tracked message is.
type place uint8

const (
	free place = iota
	inFlight
	ready
	deferred
	held       // finished once other replicas know: in flight without a consumer and a deadline
	exhausted  // and not delivered
	expired    // likewise
	keyBlocked // waits for others of its key to be finished, or for its key to be known
)

// delayed is what deferred a message, or why it is no longer deferred.
type delayed uint8

const (
	byClient      delayed = iota // its publisher or a consumer
	byBackoff                    // the channel's backoff
	byRecording                  // its attempts are being recorded elsewhere
	advanced                     // no longer deferred: an operator advanced it
	markedExpired                // no longer deferred: it has expired
)

// message is the state of one offset that is neither fresh nor finished.
type message struct {
	offset   seq.Offset
	due      int64 // in flight: the deadline; deferred: due time; both in ns on the timeline; ready: its lot, or setAside, or that it is isolated; exhausted, expired: number of the event since which it is
	taken    int64 // in flight: time of delivery; deferred: when it was deferred; both in ns on the timeline; exhausted, expired: the last consumer
	next     int32 // in its consumer's list, the ready list or the free list
	prev     int32
	event    uint64 // the number of its event; 0: none
	owner    int32  // in flight: index of the consumer; held: -1 if it was skipped
	attempts seq.Attempts
	place    place
	delayed  delayed // deferred: what deferred it; elsewhere: whether it was advanced
}

// list is a chain of messages, oldest first. Slot 0 means none.
type list struct{ head, tail int32 }

// consumer is the messages in flight with one consumer.
type consumer struct {
	id       uint64
	mine     list
	count    int
	joint    uint64 // the last event at which it had more than one
	disposes bool   // it takes exhausted and expired messages, and its failures are not the messages'
}

// tracked holds the messages that a channel tracks individually. It exists only while there are
// any, so that an idle channel is small.
type tracked struct {
	index     index
	slots     []message // slot 0 is not used
	freeSlot  int32
	ready     list
	aside     aside
	exhausted list
	expired   list
	deadlines timers // of messages in flight
	deferrals timers
	collected []cell // due, and about to become ready together
	events    uint64 // total number of events
	consumers []consumer
	byID      map[uint64]int32 // consumers
	spare     []int32          // unused indexes of consumers
	names     aliases          // of messages in flight
	lots      lots
	isolation isolation
	far       position.DeferralQueue
	early     seq.Offset // after all messages that were tracked before the cursor reached them
}

func newTracked() *tracked {
	t := &tracked{slots: make([]message, 1, minCells), byID: make(map[uint64]int32)}
	t.index.slots = &t.slots
	return t
}

// find returns the slot of an offset, if it is tracked. t may be nil.
func (t *tracked) find(o seq.Offset) (int32, bool) {
	if t == nil {
		return 0, false
	}
	return t.index.get(o)
}

// reserve makes room for further messages.
func (t *tracked) reserve(messages int) {
	t.slots = slices.Grow(t.slots, messages)
	t.index.reserve(t.index.used + messages)
}

// add starts to track an offset, without a place.
func (t *tracked) add(o seq.Offset, attempts seq.Attempts) int32 {
	slot := t.freeSlot
	if slot != 0 {
		t.freeSlot = t.slots[slot].next
	} else {
		t.slots = append(t.slots, message{})
		slot = int32(len(t.slots) - 1)
	}
	m := &t.slots[slot]
	*m = message{offset: o, attempts: attempts, owner: -1}
	t.index.put(o, slot)
	return slot
}

// leave removes a message from its place; it then has none.
func (t *tracked) leave(slot int32) {
	m := &t.slots[slot]
	switch m.place {
	case inFlight:
		c := &t.consumers[m.owner]
		t.unlink(&c.mine, slot)
		if c.count--; c.count == 1 {
			c.joint = t.events
		}
		t.isolation.left(slot)
		t.deadlines.stale++
		if len(t.names.from) > 0 {
			t.names.drop(m.offset)
		}
	case deferred:
		t.deferrals.stale++
	case ready:
		from := &t.ready
		switch {
		case m.due > 0:
			from = &t.lots.of[m.due-1]
			t.lots.sorted--
		case m.due == setAside:
			from = &t.aside.list
		case m.due <= isolated:
			from = &t.isolation.list
			t.isolation.n--
		}
		t.unlink(from, slot)
	case exhausted:
		t.unlink(&t.exhausted, slot)
	case expired:
		t.unlink(&t.expired, slot)
	case held, keyBlocked, free:
	}
	m.event = 0
	m.place = free
}

// remove stops tracking a message without a place.
func (t *tracked) remove(slot int32) {
	m := &t.slots[slot]
	t.index.remove(m.offset)
	m.next = t.freeSlot
	t.freeSlot = slot
}

func (t *tracked) intoFlight(slot, owner int32, now, deadline int64) {
	m := &t.slots[slot]
	m.place, m.owner, m.taken = inFlight, owner, now
	c := &t.consumers[owner]
	c.count++
	t.append(&c.mine, slot)
	t.setDeadline(slot, deadline)
}

// setDeadline sets the deadline of a message in flight.
func (t *tracked) setDeadline(slot int32, deadline int64) {
	m := &t.slots[slot]
	m.due = deadline
	t.schedule(&t.deadlines, slot)
}

// schedule queues a new event for when the message is due.
func (t *tracked) schedule(q *timers, slot int32) {
	m := &t.slots[slot]
	t.events++
	m.event = t.events
	q.push(event{m.due, m.event, slot})
	if q.needsSweep() {
		q.sweep(t.live)
	}
}

func (t *tracked) intoReady(slot int32) {
	m := &t.slots[slot]
	m.place, m.due = ready, 0
	t.append(&t.ready, slot)
}

func (t *tracked) intoReadyFront(slot int32) {
	m := &t.slots[slot]
	m.place, m.due = ready, 0
	t.prepend(&t.ready, slot)
}

// intoDeferred defers a message from now until it is due.
func (t *tracked) intoDeferred(slot int32, now, due int64) {
	m := &t.slots[slot]
	m.place, m.taken, m.due, m.delayed = deferred, now, due, byClient
	t.schedule(&t.deferrals, slot)
}

// number numbers a message as an event, when it arrives in its list: the lower, the earlier.
func (t *tracked) number(slot int32) {
	t.events++
	t.slots[slot].due = int64(t.events) //nolint:gosec // there are never that many
}

// live reports whether an event is still the current one of its message.
func (t *tracked) live(e event) bool { return t.slots[e.slot].event == e.number }

// earliest returns the first live event of a queue and drops stale ones before it.
func (t *tracked) earliest(q *timers) (event, bool) {
	for {
		e, ok := q.peek()
		if !ok || t.live(e) {
			return e, ok
		}
		q.pop()
		q.stale--
	}
}

// consumerOf returns the index of a consumer, which it creates if necessary.
func (t *tracked) consumerOf(id uint64) int32 {
	if i, ok := t.byID[id]; ok {
		return i
	}
	i := int32(len(t.consumers))
	if n := len(t.spare); n > 0 {
		i, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		t.consumers = append(t.consumers, consumer{})
	}
	t.consumers[i] = consumer{id: id}
	t.byID[id] = i
	return i
}

// forget drops a consumer that has nothing in flight.
func (t *tracked) forget(i int32) {
	delete(t.byID, t.consumers[i].id)
	t.consumers[i] = consumer{}
	t.spare = append(t.spare, i)
}

func (t *tracked) append(l *list, slot int32) {
	m := &t.slots[slot]
	m.prev, m.next = l.tail, 0
	if l.tail != 0 {
		t.slots[l.tail].next = slot
	} else {
		l.head = slot
	}
	l.tail = slot
}

func (t *tracked) prepend(l *list, slot int32) {
	m := &t.slots[slot]
	m.prev, m.next = 0, l.head
	if l.head != 0 {
		t.slots[l.head].prev = slot
	} else {
		l.tail = slot
	}
	l.head = slot
}

func (t *tracked) unlink(l *list, slot int32) {
	m := &t.slots[slot]
	if m.prev != 0 {
		t.slots[m.prev].next = m.next
	} else {
		l.head = m.next
	}
	if m.next != 0 {
		t.slots[m.next].prev = m.prev
	} else {
		l.tail = m.prev
	}
}
