package channel

import (
	"cmp"
	"iter"
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
func pendingBelow(l *ledger, end seq.Offset, max int) ([]Pending, bool) {
	if end > l.cursor {
		return nil, false
	}
	left := int64(end) - int64(l.floor)
	for from, to := range l.done.Ranges() {
		if from >= end {
			break
		}
		left -= int64(min(to, end) - from)
	}
	if left > int64(max) || l.held > 0 {
		return nil, false
	}
	list := make([]Pending, 0, left)
	for m := range unfinished(l) {
		if m.offset < end {
			list = append(list, pendingOf(l, m))
		}
	}
	slices.SortFunc(list, func(a, b Pending) int { return cmp.Compare(a.Offset, b.Offset) })
	return list, true
}

// unfinished returns the messages that the channel tracks or knows to be deferred for long.
func unfinished(l *ledger) iter.Seq[*message] {
	return func(yield func(*message) bool) {
		if l.t == nil {
			return
		}
		for i := range l.t.slots {
			if m := &l.t.slots[i]; m.place != free && !yield(m) {
				return
			}
		}
		for d := range l.t.far.All() {
			if !yield(&message{offset: d.Offset, due: d.At, attempts: d.Attempts, place: deferred}) {
				return
			}
		}
	}
}

func pendingOf(l *ledger, m *message) Pending {
	p := Pending{Offset: m.offset, Attempts: m.attempts.Deliveries(), State: Ready}
	switch m.place {
	case inFlight, held:
		p.State = InFlight
	case deferred:
		p.State, p.Due, p.Backoff = Deferred, l.moment(m.due), m.delayed == byBackoff
	case ready, exhausted, expired, keyBlocked, free:
	}
	return p
}
