package channel

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Pending is a message that the channel has reached and not finished.
type Pending struct {
	Offset   seq.Offset
	State    MessageState
	Attempts uint16
	Due      time.Time // of a deferred one
	Backoff  bool      // it is deferred by the channel's backoff
}

// pendingBelow returns the unfinished messages below an offset in log order. It returns false
// if there are more than max, or if some are fresh or held. It takes time proportional to the
// number of tracked messages.
func pendingBelow(s *State, end seq.Offset, max int) ([]Pending, bool) {
	if end > s.cursor {
		return nil, false
	}
	left := int64(end) - int64(s.floor)
	for from, to := range s.done.Ranges() {
		if from >= end {
			break
		}
		left -= int64(min(to, end) - from)
	}
	if left > int64(max) || s.held > 0 {
		return nil, false
	}
	list := make([]Pending, 0, left)
	for slot := 1; s.t != nil && slot < len(s.t.slots); slot++ {
		if m := &s.t.slots[slot]; m.place != free && m.offset < end {
			list = append(list, pendingOf(s, m))
		}
	}
	if s.t != nil {
		for d := range s.t.far.All() {
			if d.Offset < end {
				list = append(list, Pending{Offset: d.Offset, State: Deferred, Attempts: d.Attempts, Due: s.moment(d.At)})
			}
		}
	}
	slices.SortFunc(list, func(a, b Pending) int { return cmp.Compare(a.Offset, b.Offset) })
	return list, true
}

func pendingOf(s *State, m *message) Pending {
	p := Pending{Offset: m.offset, Attempts: m.attempts, State: Ready}
	switch m.place {
	case inFlight, held:
		p.State = InFlight
	case deferred:
		p.State, p.Due, p.Backoff = Deferred, s.moment(m.due), m.delayed == byBackoff
	case ready, spent, lapsed, barred, free:
	}
	return p
}
