package channel

import (
	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyed holds the keys of a channel that orders by key. A message that waits for others of its key,
// or whose key is not known yet, is blocked.
type keyed struct {
	lines   *keyorder.Lines // by slot
	scanned seq.Offset      // the keys of everything below are known
	fence   seq.Offset      // nothing is delivered before the keys below it are known, because these messages were in flight
	blocked int
}

func newKeyed(from seq.Offset, limits keyorder.Limits) *keyed {
	return &keyed{lines: keyorder.New(limits), scanned: from}
}

// Keyed is the keys of a State ordered by key; like the State it is not safe for concurrent use.
// On other States it has no effect.
type Keyed struct{ l *ledger }

// Keyed returns the view.
func (s *State) Keyed() Keyed { return Keyed{&s.ledger} }

// MayHaveKey reports whether a message has, or may have, a key.
func (k Keyed) MayHaveKey(o seq.Offset) bool {
	l := k.l
	if l.keyed == nil {
		return false
	}
	slot, ok := l.slotOf(o)
	return o >= l.keyed.scanned || ok && l.keyed.lines.In(slot)
}

// Unknown returns the message from which to read keys next, if fewer than a minimum of messages are
// deliverable to every consumer and there are messages with unknown keys below end, the committed
// end.
func (k Keyed) Unknown(wanted int, end seq.Offset) (from seq.Offset, some bool) {
	l := k.l
	if l.keyed == nil {
		return 0, false
	}
	l.keyed.scanned = max(l.keyed.scanned, l.floor)
	return l.keyed.scanned, open(l, end) && (l.ready-inLots(l)-isolatedOf(l) < wanted || l.keyed.scanned < l.keyed.fence)
}

// open reports whether keys of messages below end may be learned.
func open(l *ledger, end seq.Offset) bool {
	return l.keyed.scanned < end && !l.keyed.lines.Full()
}

// Learn sets the key of the first message with an unknown key; an empty key means none. Other
// messages are ignored.
func (k Keyed) Learn(o seq.Offset, key []byte) {
	l := k.l
	if l.keyed == nil || o != l.keyed.scanned {
		return
	}
	l.keyed.scanned++
	finished := o < l.floor || l.done.Contains(o)
	slot, tracked := l.slotOf(o)
	fresh := o >= l.cursor && !finished && !tracked
	switch {
	case fresh:
		slot = l.fresh()
	case o >= l.cursor:
		l.cursor++
		if tracked {
			l.ahead--
		}
	}
	if finished {
		return
	}
	lines, m := l.keyed.lines, &l.t.slots[slot]
	if len(key) > 0 && !lines.In(slot) {
		lines.Join(slot, key)
		if m.place == inFlight || m.place == held {
			lines.Out(slot) // since before the channel ordered by key
			if first := lines.First(slot); l.t.slots[first].place == ready {
				l.leave(first)
				l.enqueue(first) // it waits
			}
		}
	}
	if fresh {
		l.enqueue(slot)
	} else {
		unblock(l, slot)
	}
}

// blockedBy returns how many messages wait for others with their key.
func blockedBy(l *ledger) int {
	if l.keyed == nil {
		return 0
	}
	return l.keyed.blocked
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

// KeyBlock reports whether all waiting messages wait for their key, or the channel has reached its
// limit of tracked keys, and for which key most wait. It visits every key.
func (v View) KeyBlock() (b KeyBlock, some bool) {
	l := v.l
	if l.keyed == nil || !l.keyed.lines.Full() && (l.keyed.blocked == 0 || l.ready > 0) {
		return KeyBlock{}, false
	}
	key, first, waiting := l.keyed.lines.Longest()
	if waiting == 0 {
		return KeyBlock{}, false
	}
	b = KeyBlock{Key: key, Waiting: waiting, Tracked: l.keyed.lines.Len(), Full: l.keyed.lines.Full()}
	b.Offset = l.t.slots[first].offset
	b.State, _ = v.StateOf(b.Offset)
	return b, true
}

// fenced reports whether nothing is delivered, because keys of messages in flight are not known.
func fenced(l *ledger) bool {
	return l.keyed != nil && l.keyed.scanned < l.keyed.fence && !l.keyed.lines.Full()
}

// bar bars a message without a place if it must wait for its key, and reports whether it did.
func block(l *ledger, slot int32) bool {
	k := l.keyed
	if k == nil || k.may(&l.t.slots[slot], slot) {
		return false
	}
	l.t.slots[slot].place = keyBlocked
	k.blocked++
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
		unblock(l, l.keyed.lines.Back(slot))
	}
}

// depart removes a message that is no longer tracked from the line of its key.
func depart(l *ledger, slot int32) {
	if l.keyed != nil {
		unblock(l, l.keyed.lines.Leave(slot))
	}
}

// unblock makes a message that its key blocks ready if it no longer has to wait. Slot 0 is none.
func unblock(l *ledger, slot int32) {
	if slot == 0 || l.t.slots[slot].place != keyBlocked || !l.keyed.may(&l.t.slots[slot], slot) {
		return
	}
	l.leave(slot)
	l.enqueue(slot)
}
