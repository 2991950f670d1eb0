package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Lot numbers a group of consumers with messages of their own. Lot 0 is all consumers of a
// channel without such groups.
type Lot uint8

// maxLots is the maximum number of lots of a channel besides lot 0.
const maxLots = 255

// maxSorted is how many messages may wait for the consumers of their lots. At that limit a consumer
// of a lot gets only messages that wait for its lot.
const maxSorted = 100_000

// lots are the messages that wait for the consumers of a lot. They are in no other list.
type lots struct {
	of     []list // by lot, from 1
	sorted int    // number of messages in them; they count as ready
}

// untagged is the lot of the consumers without a tag, while others have one.
const untagged Lot = 1

// maxTags is the maximum number of tags that consumers of a channel can request at a time.
const maxTags = maxLots - int(untagged)

// Tags are the distinct tags requested by consumers of a channel. A message with one of them
// goes to the consumers that request it, any other to those that request none. Without tags all
// messages go to all consumers.
type Tags []string

// Of returns the lot of a tag; "" is no tag.
func (t Tags) Of(tag string) Lot {
	if len(t) == 0 {
		return 0
	}
	if i := slices.Index(t, tag); i >= 0 && tag != "" {
		return untagged + 1 + Lot(i) //nolint:gosec // at most maxTags
	}
	return untagged
}

// Admit reports whether a consumer may request a tag: there is a maximum number of distinct tags.
func (t Tags) Admit(tag string) bool {
	return tag == "" || len(t) < maxTags || slices.Contains(t, tag)
}

// Sorting is how messages get to the consumers of their lots; like the State it is not safe for
// concurrent use.
type Sorting struct{ s *State }

// Sorting returns the view.
func (s *State) Sorting() Sorting { return Sorting{s} }

// Take is State.Take for a consumer of a lot: messages waiting for the lot come first. Others
// may belong to another lot: Sort assigns them.
func (x Sorting) Take(lot Lot, now time.Time, consumer uint64, timeout time.Duration, max int, end seq.Offset, out []Delivery) []Delivery {
	x.s.ledger.lot = lot
	out = x.s.Take(now, consumer, timeout, max, end, out)
	x.s.ledger.lot = 0
	return out
}

// Sort removes a taken but unsent message from flight and queues it for the consumers of a lot
// other than 0. The delivery does not count. An offset that is not in flight is ignored.
func (x Sorting) Sort(o seq.Offset, lot Lot) {
	l := &x.s.ledger
	slot, ok := l.findInFlight(o)
	if !ok {
		return
	}
	l.untake(slot)
	if block(l, slot) {
		return // its lot is determined when it is taken again
	}
	t := l.t
	if t.isolation.add(t, slot, lot) {
		l.ready++
		return
	}
	for len(t.lots.of) < int(lot) {
		t.lots.of = append(t.lots.of, list{})
	}
	m := &t.slots[slot]
	m.place, m.due = ready, int64(lot)
	t.append(&t.lots.of[lot-1], slot)
	t.lots.sorted++
	l.ready++
}

// Merge makes messages that wait for lots ready for all consumers again, before other messages.
func (x Sorting) Merge() { mergeLots(&x.s.ledger) }

func mergeLots(l *ledger) {
	if l.t == nil {
		return
	}
	l.t.isolation.merge(l.t)
	for i := range l.t.lots.of {
		for slot := l.t.lots.of[i].tail; slot != 0; slot = l.t.lots.of[i].tail {
			l.leave(slot)
			l.t.intoReadyFront(slot)
			l.ready++
		}
	}
	l.t.lots.of = nil
}

// inLots returns how many messages wait for consumers of lots.
func inLots(l *ledger) int {
	if l.t == nil {
		return 0
	}
	return l.t.lots.sorted
}

// ofLot returns a message that waits for the current lot.
func ofLot(l *ledger, end seq.Offset) (int32, bool) {
	if l.lot == 0 || l.t == nil || len(l.t.lots.of) < int(l.lot) {
		return 0, false
	}
	slot := l.t.lots.of[l.lot-1].head
	return slot, slot != 0 && l.t.slots[slot].offset < end
}

// Full reports whether no more messages can be sorted.
func (x Sorting) Full() bool { return lotsFull(&x.s.ledger) }

func lotsFull(l *ledger) bool { return inLots(l) >= maxSorted }
