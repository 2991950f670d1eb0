package channel

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// name returns the offset by which its consumer knows the message at an offset.
func (e *entry) name(at seq.Offset) seq.Offset {
	if e.known != nil {
		return *e.known
	}
	return at
}

// standing returns the current offset of a message in flight that its consumer knows by
// offset o.
func (m *model) standing(o seq.Offset) seq.Offset {
	for at, e := range m.at {
		if e.state == InFlight && !e.held && e.known != nil && *e.known == o {
			return at
		}
	}
	return o
}

func (m *model) names(offsets []seq.Offset) (names []seq.Offset) {
	for _, o := range offsets {
		names = append(names, m.at[o].name(o))
	}
	return names
}

// unknown reports whether a message is fresh.
func (m *model) unknown(o seq.Offset) bool { return o >= m.floor && m.at[o] == nil && o >= m.cursor }

func (m *model) move(c Copy, now time.Time) {
	if !m.unknown(c.To) {
		return
	}
	e := m.at[c.From]
	finished := c.From < m.floor || e != nil && e.state == Finished
	switch {
	case e != nil && e.held && e.state == InFlight, finished && !c.Inherited:
		m.at[c.To] = &entry{state: Finished}
		m.settle()
		return
	case finished || e == nil:
		m.at[c.To] = &entry{attempts: c.Attempts}
		m.enqueue(c.To)
		if e == nil && !finished {
			m.at[c.From] = &entry{state: Finished}
		}
	default:
		name := e.name(c.From)
		m.at[c.To], m.at[c.From] = e, &entry{state: Finished}
		if e.known = nil; e.state == InFlight {
			e.known = &name
		}
		for _, list := range [][]seq.Offset{m.queue, m.aside, m.isolation.suspects, m.spent, m.lapsed} {
			if i := slices.Index(list, c.From); i >= 0 {
				list[i] = c.To
			}
		}
	}
	e = m.at[c.To]
	e.attempts = e.attempts.Later(c.Attempts)
	if (e.state == Ready || e.state == Deferred) && c.Rest > 0 && !e.advanced {
		m.unqueue(func(o seq.Offset) bool { return o == c.To })
		m.spent = slices.DeleteFunc(m.spent, func(o seq.Offset) bool { return o == c.To })
		e.held = false // it was released
		m.deferUntil(c.To, now.Add(c.Rest))
	}
	m.settle()
}

// move moves a message to the next offset of the log, or repeats an earlier move.
func (p *pair) move(rng *rand.Rand, from seq.Offset, rest time.Duration) {
	c := Copy{From: from, To: p.end, Attempts: seq.Attempts(rng.IntN(3)), Inherited: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		c.Rest = rest
	}
	if rng.IntN(4) == 0 && p.end > 0 {
		c.To--
	}
	if c.To <= c.From || p.m.at[c.To] == nil && c.To < p.m.cursor {
		return
	}
	p.note("move %+v", c)
	p.s.Arrivals().Move(c, p.now)
	p.m.move(c, p.now)
	p.end = max(p.end, c.To+1)
}

// addressed appends a message that is for another channel, or was delivered before.
func (p *pair) addressed(rng *rand.Rand, rest time.Duration) {
	o := p.end
	p.end++
	attempts := seq.Attempts(rng.IntN(3))
	fresh := p.m.unknown(o)
	if rng.IntN(2) == 0 {
		p.note("pass over %d", o)
		p.s.Arrivals().Skip(o)
		if fresh {
			p.m.at[o] = &entry{state: Finished}
			p.m.settle()
		}
		return
	}
	if rng.IntN(2) == 0 {
		rest = 0
	}
	p.note("await %d, %d attempts, after %v", o, attempts, rest)
	p.s.Arrivals().Add(o, attempts, p.now, rest)
	switch {
	case !fresh || attempts == 0 && rest == 0:
	case rest > 0:
		p.m.at[o] = &entry{attempts: attempts}
		p.m.deferUntil(o, p.now.Add(rest))
	default:
		p.m.at[o] = &entry{attempts: attempts}
		p.m.enqueue(o)
	}
}

var moveTime = time.Unix(1000, 0)

func TestMovedMessageIsAnsweredByOldID(t *testing.T) {
	s := New(0, false)
	s.Take(moveTime, 1, time.Minute, 1, 5, nil)
	s.Arrivals().Move(Copy{From: 0, To: 5}, moveTime)
	s.Arrivals().Move(Copy{From: 5, To: 6}, moveTime)
	if got := s.TakenBy(1).Offsets(); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("taken %v, want what its consumer knows", got)
	}
	if got := s.View().Current(0); got != 6 {
		t.Errorf("stands at %d, want 6", got)
	}
	if err := s.Touch(0, 1, moveTime, time.Hour, time.Hour); err != nil {
		t.Error(err)
	}
	if err := s.Finish(0, 1); err != nil {
		t.Error(err)
	}
	if state, _ := s.View().StateOf(6); state != Finished {
		t.Errorf("the copy is in state %d", state)
	}
	if err := s.Finish(0, 1); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("finished twice: %v", err)
	}
}

func TestTimedOutMovedMessageHasOnlyNewID(t *testing.T) {
	s := New(0, false)
	s.Take(moveTime, 1, time.Minute, 1, 1, nil)
	s.Arrivals().Move(Copy{From: 0, To: 1}, moveTime)
	s.Expire(moveTime.Add(time.Hour), nil)
	got := s.Take(moveTime, 1, time.Minute, 9, 2, nil)
	if len(got) != 1 || got[0] != (Delivery{Offset: 1, Attempts: 2}) {
		t.Fatalf("took %v", got)
	}
	if err := s.Finish(0, 1); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("finished by the old id: %v", err)
	}
}

func TestCopyForAnotherChannelIsSkipped(t *testing.T) {
	s := New(0, false)
	s.Arrivals().Skip(1)
	if c := s.View().Counts(3); c.Depth != 2 || c.Messages != 2 {
		t.Errorf("%+v, want 2 of 3 messages", c)
	}
	if got := s.Take(moveTime, 1, time.Minute, 9, 3, nil); len(got) != 2 || got[1].Offset != 2 {
		t.Errorf("took %v", got)
	}
}

// TestAdvancedMessageStaysReady: its copy was appended while an operator advanced it.
func TestAdvancedMessageStaysReady(t *testing.T) {
	s := New(0, false)
	s.Take(moveTime, 1, time.Minute, 1, 1, nil)
	if err := s.Requeue(0, 1, moveTime, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := s.Operator().Advance([]seq.Offset{0}); len(got) != 1 {
		t.Fatalf("advanced %v", got)
	}
	s.Arrivals().Move(Copy{From: 0, To: 1, Attempts: 1, Rest: time.Hour}, moveTime)
	if state, _ := s.View().StateOf(1); state != Ready {
		t.Errorf("the copy is %v", state)
	}
}
