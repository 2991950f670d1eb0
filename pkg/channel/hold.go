package channel

import "github.com/brokerd/brokerd/pkg/seq"

// Holds are the finishes of a State that count only after other replicas have stored them. Like the
// State they are not safe for concurrent use.
type Holds struct{ l *ledger }

// Holds returns the view.
func (s *State) Holds() Holds { return Holds{&s.ledger} }

// Add is the first step of a finish that counts only after other replicas have stored it: the
// message leaves the consumer and has no deadline, but is still in flight, so an ordered
// channel delivers nothing. Further answers to it return failure.NotInFlight. Confirm or Release
// follows.
func (h Holds) Add(o seq.Offset, consumer uint64) error {
	l := h.l
	slot, err := l.owned(o, consumer)
	if err != nil {
		return err
	}
	takenOut(l, slot) // it stays so
	l.leave(slot)
	l.t.slots[slot].place = held
	l.inFlight++
	l.held++
	l.revision++
	return nil
}

// Skip is Add for a message that was taken and not sent because its consumer's filter does not
// select it: neither the delivery nor the finish counts.
func (h Holds) Skip(o seq.Offset, consumer uint64) error {
	l := h.l
	if l.t != nil {
		o = l.t.names.current(o)
	}
	if err := h.Add(o, consumer); err != nil {
		return err
	}
	slot, _ := l.holding(o)
	m := &l.t.slots[slot]
	m.owner = -1
	m.attempts = m.attempts.Undelivered()
	l.delivered--
	return nil
}

// Confirm finishes a held message. It ignores an offset that is no longer held because the channel
// was moved.
func (h Holds) Confirm(o seq.Offset) {
	l := h.l
	if slot, ok := l.holding(o); ok {
		if l.t.slots[slot].owner >= 0 {
			l.finished++
		}
		l.finish(slot)
	}
}

// Release makes a held message ready: it is delivered again before all others. It ignores an offset
// that is no longer held.
func (h Holds) Release(o seq.Offset) {
	l := h.l
	if slot, ok := l.holding(o); ok {
		l.leave(slot)
		enqueueFirst(l, slot)
		l.revision++
	}
}

// Len returns how many messages are held. They count as in flight without a consumer.
func (h Holds) Len() int { return h.l.held }

// holding returns the slot of a held offset.
func (l *ledger) holding(o seq.Offset) (int32, bool) {
	slot, ok := l.t.find(o)
	return slot, ok && l.t.slots[slot].place == held
}
