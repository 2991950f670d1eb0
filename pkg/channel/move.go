package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Copy is a message that was appended again and now has another offset.
type Copy struct {
	From, To seq.Offset
	Attempts seq.Attempts  // deliveries of the message so far
	Rest     time.Duration // rest of its delay
	// Inherited reports that the copy was found in the log by a new leader, which may lack
	// changes of the original message's state.
	Inherited bool
}

// Arrivals is what a State learns of messages that were just committed, other than that they are
// there. Like the State it is not safe for concurrent use.
type Arrivals struct{ l *ledger }

// Arrivals returns the view.
func (s *State) Arrivals() Arrivals { return Arrivals{&s.ledger} }

// Move replaces a message by its copy: the original is finished, and its state (in flight with
// the same consumer, deferred, waiting) moves to the copy's offset. The consumer may still
// answer with the old offset. A message that an operator advanced meanwhile is not deferred again.
// If the original is already finished, so is the copy, unless it is inherited: then this very move
// may have finished the original. A known copy is not changed.
func (a Arrivals) Move(c Copy, now time.Time) {
	l := a.l
	if l.known(c.To) {
		return
	}
	if c.To >= l.base {
		l.base++ // it is the same message
	}
	l.revision++
	nanos := l.nanos(now)
	slot, tracked := l.slotOf(c.From)
	finished := c.From < l.floor || l.done.Contains(c.From)
	switch {
	case tracked && l.t.slots[slot].place == held:
		fallthrough // other replicas are being informed that it is finished
	case !tracked && finished && !c.Inherited:
		l.recorder.add(c.To)
		l.done.Add(c.To)
		l.advanceFloor()
		return
	case tracked:
		rekey(l, slot, c.To)
	default:
		slot = l.trackAhead(c.To, c.Attempts)
		l.enqueue(slot)
		if !finished {
			l.recorder.add(c.From)
			l.done.Add(c.From)
		}
	}
	m := &l.t.slots[slot]
	m.attempts = m.attempts.Later(c.Attempts)
	if (m.place == ready || m.place == deferred || m.place == keyBlocked) && c.Rest > 0 && m.delayed != advanced {
		l.leave(slot)
		putOff(l, slot, nanos, addTime(nanos, c.Rest))
	}
	l.advanceFloor()
}

// rekey moves a tracked message to an unknown offset.
func rekey(l *ledger, slot int32, to seq.Offset) {
	from := l.t.slots[slot].offset
	l.recorder.add(from)
	l.recorder.add(to)
	if from >= l.cursor {
		l.ahead--
	}
	if to >= l.cursor {
		l.ahead++
	}
	l.t.rekey(slot, to)
	l.t.markEarly(to)
	l.done.Add(from)
}

// Skip skips a message that is not addressed to the channel: it counts as finished and as
// never published. A known message is not changed.
func (a Arrivals) Skip(o seq.Offset) {
	l := a.l
	if l.known(o) {
		return
	}
	if o >= l.base {
		l.base++
	}
	l.recorder.add(o)
	l.done.Add(o)
	l.advanceFloor()
	l.revision++
}

// Add adds a message that was just committed, beyond the cursor, as waiting for its first
// delivery by this channel, with its previous number of attempts and a delay. A known message
// is not changed.
func (a Arrivals) Add(o seq.Offset, attempts seq.Attempts, now time.Time, rest time.Duration) {
	l := a.l
	if attempts == 0 && rest <= 0 || l.known(o) || o < l.cursor {
		return
	}
	if rest <= 0 {
		l.enqueue(l.trackAhead(o, attempts))
	} else {
		nanos := l.nanos(now)
		postpone(l, o, attempts, nanos, addTime(nanos, rest))
	}
	l.revision++
}

// aliases maps the offsets by which consumers know moved messages to their current offsets. The
// zero value is empty.
type aliases struct {
	to   map[seq.Offset]seq.Offset // current offset, by the one that its consumer knows
	from map[seq.Offset]seq.Offset // the reverse
}

// current returns the current offset of a message that may have an alias.
func (a *aliases) current(o seq.Offset) seq.Offset {
	if len(a.to) == 0 {
		return o
	}
	if to, ok := a.to[o]; ok {
		return to
	}
	return o
}

// name returns the offset by which the consumer of a message knows it.
func (a *aliases) name(o seq.Offset) seq.Offset {
	if from, ok := a.from[o]; ok {
		return from
	}
	return o
}

// add records that a message has moved from one offset to another.
func (a *aliases) add(from, to seq.Offset) {
	if a.to == nil {
		a.to, a.from = map[seq.Offset]seq.Offset{}, map[seq.Offset]seq.Offset{}
	}
	name := a.name(from)
	delete(a.from, from)
	a.to[name], a.from[to] = to, name
}

// drop removes the alias of the message at an offset.
func (a *aliases) drop(o seq.Offset) {
	if name, ok := a.from[o]; ok {
		delete(a.to, name)
		delete(a.from, o)
	}
}

// rekey moves a message to an untracked offset. A message in flight keeps the name that its
// consumer knows.
func (t *tracked) rekey(slot int32, to seq.Offset) {
	m := &t.slots[slot]
	if m.place == inFlight {
		t.names.add(m.offset, to)
	}
	t.index.remove(m.offset)
	m.offset = to
	t.index.put(to, slot)
}
