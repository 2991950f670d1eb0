package channel

import (
	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyed holds the keys of a channel that orders by key. A message that waits for others of its key,
// or whose key is not known yet, is barred.
type keyed struct {
	lines   *keyorder.Lines // by slot
	scanned seq.Offset      // the keys of everything below are known
	fence   seq.Offset      // nothing is delivered before the keys below it are known, because these messages were in flight
	barred  int
}

func newKeyed(from seq.Offset, limits keyorder.Limits) *keyed {
	return &keyed{lines: keyorder.New(limits), scanned: from}
}

// Keyed is a view of a State ordered by key; like the State it is not safe for concurrent use.
// On other States it has no effect.
type Keyed struct{ s *State }

// KeyedOf returns the view.
func KeyedOf(s *State) Keyed { return Keyed{s} }

// SetOrder changes the delivery order of the channel. Messages in flight stay with their consumers,
// deferred ones stay deferred. After a change to order by key, nothing is delivered until the keys
// of messages in flight are known, and nothing of a key with a message in flight; if there are too
// many keys to track, they are not waited for. It visits every tracked message.
func SetOrder(s *State, order policy.Order) {
	s.ordered = order == policy.Strict
	if s.ordered || order == policy.ByKey {
		drawRange(&s.ledger, 0, seq.MaxOffset+1)
	}
	if by := order == policy.ByKey; by == (s.keyed != nil) {
		return
	}
	SortingOf(s).Merge()
	var waits []int32
	fence := s.floor
	for slot := 1; s.t != nil && slot < len(s.t.slots); slot++ {
		switch m := &s.t.slots[slot]; m.place {
		case ready, barred:
			waits = append(waits, int32(slot)) //nolint:gosec // slots are numbered so
		case inFlight, held:
			fence = max(fence, m.offset+1)
		case free, deferred, spent, lapsed:
		}
	}
	for _, slot := range waits {
		s.fall(slot)
	}
	if s.keyed = nil; order == policy.ByKey {
		s.keyed = newKeyed(s.floor, keyorder.DefaultLimits())
		s.keyed.fence = fence
	}
	promoteFallen(&s.ledger)
	s.revision++
}

// Confirms reports whether a message is ordered: its finish counts only once other replicas know
// it, and it keeps its offset. In a channel ordered by key, messages without a key are not ordered.
func Confirms(s *State, o seq.Offset) bool {
	if s.keyed == nil {
		return s.ordered
	}
	return KeyedOf(s).Binds(o)
}

// Binds reports whether a message has, or may have, a key.
func (k Keyed) Binds(o seq.Offset) bool {
	s := k.s
	if s.keyed == nil {
		return false
	}
	slot, ok := s.slotOf(o)
	return o >= s.keyed.scanned || ok && s.keyed.lines.In(slot)
}

// Unknown returns the message from which to read keys next, if fewer than a minimum of messages are
// deliverable to every consumer and there are messages with unknown keys below end, the committed
// end.
func (k Keyed) Unknown(wanted int, end seq.Offset) (from seq.Offset, some bool) {
	s := k.s
	if s.keyed == nil {
		return 0, false
	}
	s.keyed.scanned = max(s.keyed.scanned, s.floor)
	return s.keyed.scanned, k.open(end) && (s.ready-SortingOf(s).Len() < wanted || s.keyed.scanned < s.keyed.fence)
}

// open reports whether keys of messages below end may be learned.
func (k Keyed) open(end seq.Offset) bool {
	return k.s.keyed.scanned < end && !k.s.keyed.lines.Full()
}

// Learn sets the key of the first message with an unknown key; an empty key means none. Other
// messages are ignored.
func (k Keyed) Learn(o seq.Offset, key []byte) {
	s := k.s
	if s.keyed == nil || o != s.keyed.scanned {
		return
	}
	s.keyed.scanned++
	finished := o < s.floor || s.done.Contains(o)
	slot, tracked := s.slotOf(o)
	fresh := o >= s.cursor && !finished && !tracked
	switch {
	case fresh:
		slot = s.fresh()
	case o >= s.cursor:
		s.cursor++
		if tracked {
			s.ahead--
		}
	}
	if finished {
		return
	}
	lines, m := s.keyed.lines, &s.t.slots[slot]
	if len(key) > 0 && !lines.In(slot) {
		lines.Join(slot, key)
		if m.place == inFlight || m.place == held {
			lines.Out(slot) // since before the channel ordered by key
			if first := lines.First(slot); s.t.slots[first].place == ready {
				s.leave(first)
				s.enqueue(first) // it waits
			}
		}
	}
	if fresh {
		s.enqueue(slot)
	} else {
		unbar(&s.ledger, slot)
	}
}

// Barred returns how many messages wait for others with their key.
func (k Keyed) Barred() int {
	if k.s.keyed == nil {
		return 0
	}
	return k.s.keyed.barred
}

// KeyBlock describes the key for which most messages of a channel wait.
type KeyBlock struct {
	Key     string
	Offset  seq.Offset // the first unfinished message with the key
	State   MessageState
	Waiting int  // messages with the key, including the first
	Tracked int  // messages with any key
	Full    bool // the channel has reached its limit, and reads no further
}

// Block reports whether all waiting messages wait for their key, or the channel has reached its
// limit of tracked keys, and for which key most wait. It visits every key.
func (k Keyed) Block() (b KeyBlock, some bool) {
	s := k.s
	if s.keyed == nil || !s.keyed.lines.Full() && (s.keyed.barred == 0 || s.ready > 0) {
		return KeyBlock{}, false
	}
	key, first, waiting := s.keyed.lines.Longest()
	if waiting == 0 {
		return KeyBlock{}, false
	}
	b = KeyBlock{Key: key, Waiting: waiting, Tracked: s.keyed.lines.Len(), Full: s.keyed.lines.Full()}
	b.Offset = s.t.slots[first].offset
	b.State, _ = s.StateOf(b.Offset)
	return b, true
}

// fenced reports whether nothing is delivered, because keys of messages in flight are not known.
func fenced(l *ledger) bool {
	return l.keyed != nil && l.keyed.scanned < l.keyed.fence && !l.keyed.lines.Full()
}

// bar bars a message without a place if it must wait for its key, and reports whether it did.
func bar(l *ledger, slot int32) bool {
	k := l.keyed
	if k == nil || k.may(&l.t.slots[slot], slot) {
		return false
	}
	l.t.slots[slot].place = barred
	k.barred++
	return true
}

// may reports whether a message's key permits its delivery.
func (k *keyed) may(m *message, slot int32) bool {
	if k.lines.In(slot) {
		return k.lines.May(slot)
	}
	return m.offset < k.scanned
}

// takenOut records that a message is with a consumer, or held.
func takenOut(l *ledger, slot int32) {
	if l.keyed != nil {
		l.keyed.lines.Out(slot)
	}
}

// broughtBack undoes takenOut: messages that waited for this one may be delivered.
func broughtBack(l *ledger, slot int32) {
	if l.keyed != nil {
		unbar(l, l.keyed.lines.Back(slot))
	}
}

// depart removes a message that is no longer tracked from the line of its key.
func depart(l *ledger, slot int32) {
	if l.keyed != nil {
		unbar(l, l.keyed.lines.Leave(slot))
	}
}

// unbar makes a barred message ready if it no longer has to wait. Slot 0 is none.
func unbar(l *ledger, slot int32) {
	if slot == 0 || l.t.slots[slot].place != barred || !l.keyed.may(&l.t.slots[slot], slot) {
		return
	}
	l.leave(slot)
	l.enqueue(slot)
}

// On reports whether the State orders by key.
func (k Keyed) On() bool { return k.s.keyed != nil }
