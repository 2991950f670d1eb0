package channel

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Copy is a message that stands at another offset from now on: it was appended again.
type Copy struct {
	From, To seq.Offset
	Attempts uint16        // deliveries of the message so far
	Rest     time.Duration // how long it is not to be delivered
	// Inherited says that the copy was found in the log by one who may know less than
	// it should of what became of the message where it stood before.
	Inherited bool
}

// Move has a message stand at a copy of it: it is finished where it stood, and is where it
// was (in flight with the same consumer, deferred, waiting) at the copy's offset. Its
// consumer may go on to answer by the offset that it was given. A message that is
// finished already was faster than its copy, which is finished, too; unless the copy is
// inherited: then the message may have been finished by this very move. A copy that is
// known already is left alone.
func Move(s *State, c Copy, now time.Time) {
	if s.known(c.To) {
		return
	}
	if c.To >= s.base {
		s.base++ // it is no other message
	}
	s.revision++
	nanos := s.nanos(now)
	slot, tracked := s.slotOf(c.From)
	finished := c.From < s.floor || s.done.Contains(c.From)
	switch {
	case tracked && s.t.slots[slot].place == held:
		fallthrough // others are being told that it is finished
	case !tracked && finished && !c.Inherited:
		s.recorder.add(c.To)
		s.done.Add(c.To)
		s.advanceFloor()
		return
	case tracked:
		rekey(&s.ledger, slot, c.To)
	default:
		slot = s.meet(c.To, c.Attempts)
		s.enqueue(slot)
		if !finished {
			s.recorder.add(c.From)
			s.done.Add(c.From)
		}
	}
	m := &s.t.slots[slot]
	m.attempts = max(m.attempts, min(c.Attempts, MaxAttempts))
	if (m.place == ready || m.place == deferred || m.place == barred) && c.Rest > 0 {
		s.leave(slot)
		s.t.intoDeferred(slot, nanos, addTime(nanos, c.Rest))
		s.deferred++
	}
	s.advanceFloor()
}

// rekey has a tracked message stand at an offset that is not known.
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
	l.done.Add(from)
}

// PassOver says that a message is none of the channel's: it counts as finished, and as
// never published. One that is known already is left alone.
func PassOver(s *State, o seq.Offset) {
	if s.known(o) {
		return
	}
	if o >= s.base {
		s.base++
	}
	s.recorder.add(o)
	s.done.Add(o)
	s.advanceFloor()
	s.revision++
}

// Await has a message that has just been committed, of which the cursor knows nothing yet,
// wait for its first delivery by this channel, though it has been delivered as often
// elsewhere or before, and for a time. One that is known already is left alone.
func Await(s *State, o seq.Offset, attempts uint16, now time.Time, rest time.Duration) {
	if attempts == 0 && rest <= 0 || s.known(o) || o < s.cursor {
		return
	}
	if rest <= 0 {
		s.enqueue(s.meet(o, attempts))
	} else {
		nanos := s.nanos(now)
		postpone(s, o, attempts, nanos, addTime(nanos, rest))
	}
	s.revision++
}

// Standing returns where a message stands that a consumer knows by an offset.
func Standing(s *State, o seq.Offset) seq.Offset {
	if s.t == nil {
		return o
	}
	return s.t.names.standing(o)
}

// aliases are the offsets by which consumers know messages that stand elsewhere now. The
// zero value is empty.
type aliases struct {
	to   map[seq.Offset]seq.Offset // where the message stands, by what its consumer knows
	from map[seq.Offset]seq.Offset // the reverse
}

// standing returns where a message stands that may have another name.
func (a *aliases) standing(o seq.Offset) seq.Offset {
	if len(a.to) == 0 {
		return o
	}
	if to, ok := a.to[o]; ok {
		return to
	}
	return o
}

// name returns by which offset the consumer of a message knows it.
func (a *aliases) name(o seq.Offset) seq.Offset {
	if from, ok := a.from[o]; ok {
		return from
	}
	return o
}

// add notes that what stood at an offset stands at another.
func (a *aliases) add(from, to seq.Offset) {
	if a.to == nil {
		a.to, a.from = map[seq.Offset]seq.Offset{}, map[seq.Offset]seq.Offset{}
	}
	name := a.name(from)
	delete(a.from, from)
	a.to[name], a.from[to] = to, name
}

// drop forgets the other name of what stands at an offset.
func (a *aliases) drop(o seq.Offset) {
	if name, ok := a.from[o]; ok {
		delete(a.to, name)
		delete(a.from, o)
	}
}

// rekey has a message stand at an offset that is not tracked. One in flight keeps the name
// that its consumer knows.
func (t *tracked) rekey(slot int32, to seq.Offset) {
	m := &t.slots[slot]
	if m.place == inFlight {
		t.names.add(m.offset, to)
	}
	t.index.remove(m.offset)
	m.offset = to
	t.index.put(to, slot)
}
