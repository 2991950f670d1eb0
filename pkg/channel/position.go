package channel

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Position is what a checkpoint keeps of a channel on one partition. Its slices
// are sorted by offset, and no offset is in two of them.
type Position struct {
	Floor    seq.Offset // everything below is finished
	Finished []Range    // beyond the floor
	// Deferred are the messages that consumers deferred. Those that publishers
	// deferred are in the log.
	Deferred []Deferral
	// Attempted are the messages that were delivered and are neither finished nor
	// deferred.
	Attempted []Attempt
}

// Range is the offsets [From, End).
type Range struct{ From, End seq.Offset }

// Deferral is a message that is not to be delivered before a time.
type Deferral struct {
	Offset   seq.Offset
	At       int64 // ns since 1970
	Attempts uint16
}

// Attempt is how often a message has been delivered.
type Attempt struct {
	Offset   seq.Offset
	Attempts uint16
}

// Position returns what is worth keeping of the state. The result shares
// nothing with it. It looks at every tracked message.
func (s *State) Position() Position {
	p := Position{Floor: s.floor}
	for from, end := range s.done.Ranges() {
		p.Finished = append(p.Finished, Range{from, end})
	}
	if s.t == nil {
		return p
	}
	for i := range s.t.slots {
		switch m := &s.t.slots[i]; m.place {
		case inFlight, ready:
			if m.attempts > 0 {
				p.Attempted = append(p.Attempted, Attempt{m.offset, m.attempts})
			}
		case deferred:
			if !m.published {
				p.Deferred = append(p.Deferred, Deferral{m.offset, m.due, m.attempts})
			}
		case free:
		}
	}
	slices.SortFunc(p.Attempted, func(a, b Attempt) int { return compare(a.Offset, b.Offset) })
	slices.SortFunc(p.Deferred, func(a, b Deferral) int { return compare(a.Offset, b.Offset) })
	return p
}

func compare(a, b seq.Offset) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Below returns what the position says of the offsets below end: what may be
// kept of it when only the log below end is certain to survive.
func (p Position) Below(end seq.Offset) Position {
	q := Position{Floor: min(p.Floor, end)}
	for _, r := range p.Finished {
		if r.From < end {
			q.Finished = append(q.Finished, Range{r.From, min(r.End, end)})
		}
	}
	for _, d := range p.Deferred {
		if d.Offset < end {
			q.Deferred = append(q.Deferred, d)
		}
	}
	for _, a := range p.Attempted {
		if a.Offset < end {
			q.Attempted = append(q.Attempted, a)
		}
	}
	return q
}
