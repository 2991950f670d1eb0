package channel

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/position"
)

// Position returns the state to store. The result shares no memory with the State. It visits
// every tracked message. Held messages count as finished: the position is sent to replicas that
// must learn of them and must not undo what they already know. wall is the wall clock at now,
// in ns since 1970, used for due times.
func (v View) Position(now time.Time, wall int64) position.Position {
	l := v.l
	p := position.Position{Floor: l.floor}
	for from, end := range l.done.Ranges() {
		p.Finished = append(p.Finished, position.Range{From: from, End: end})
	}
	if l.t == nil {
		return p
	}
	l.align(now, wall)
	var later []position.Deferral
	if near := l.deferred - l.t.far.Len(); near > 0 {
		later = make([]position.Deferral, 0, near)
	}
	for i := range l.t.slots {
		switch m := &l.t.slots[i]; m.place {
		case inFlight, ready, exhausted, expired, keyBlocked:
			if m.attempts > 0 {
				p.Attempted = append(p.Attempted, position.Attempt{Offset: m.offset, Attempts: m.attempts})
			} else if m.delayed == advanced {
				later = append(later, position.Deferral{Offset: m.offset})
			}
		case deferred:
			later = append(later, deferralOf(l, m))
		case held, free:
		}
	}
	slices.SortFunc(p.Attempted, func(a, b position.Attempt) int { return cmp.Compare(a.Offset, b.Offset) })
	slices.SortFunc(later, func(a, b position.Deferral) int { return cmp.Compare(a.Offset, b.Offset) })
	p.Deferred = l.t.far.Set(l.wall).Merge(position.NewDeferralSet(later...))
	if l.held > 0 {
		for i := range l.t.slots {
			if l.t.slots[i].place == held {
				p.Finish(l.t.slots[i].offset)
			}
		}
	}
	return p
}
