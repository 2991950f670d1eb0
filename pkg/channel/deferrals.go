package channel

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Window is a span of time in which deferred messages are due. A zero time does not bound it.
type Window struct {
	Since time.Time // not before
	Until time.Time // before
}

// has reports whether a due time is in the window.
func (w Window) has(due time.Time) bool {
	return !due.Before(w.Since) && (w.Until.IsZero() || due.Before(w.Until))
}

// DeferredPage selects deferred messages in the order of their due times, and of offsets for equal
// times.
type DeferredPage struct {
	Window
	After time.Time  // due then or later; zero: all
	From  seq.Offset // of those due exactly After, the ones from here on
	Max   int
}

// Deferrals are the deferred messages of a State. It is a view; like the State it is not safe for
// concurrent use.
type Deferrals struct{ s *State }

// DeferralsOf returns the view.
func DeferralsOf(s *State) Deferrals { return Deferrals{s} }

// List returns deferred messages, and their total number in the window. It takes time
// proportional to the number of tracked messages.
func (l Deferrals) List(page DeferredPage) (list []Pending, total int) {
	s := l.s
	eachDeferred(s, func(m *message) {
		due := s.moment(m.due)
		if !page.has(due) {
			return
		}
		total++
		if due.Before(page.After) || due.Equal(page.After) && m.offset < page.From {
			return
		}
		if list = append(list, pendingOf(s, m)); len(list) >= 2*page.Max+1024 {
			list = earliest(list, page.Max)
		}
	})
	return earliest(list, page.Max), total
}

// eachDeferred calls f for every message that its publisher, a consumer or the backoff deferred. A
// message whose attempts are being recorded is about to be requeued, and is skipped.
func eachDeferred(s *State, f func(*message)) {
	for slot := 1; s.t != nil && slot < len(s.t.slots); slot++ {
		if m := &s.t.slots[slot]; m.place == deferred && m.delayed != byNote {
			f(m)
		}
	}
	if s.t != nil {
		for d := range s.t.far.All() {
			f(&message{offset: d.Offset, due: d.At, attempts: d.Attempts, place: deferred})
		}
	}
}

// earliest returns the first max entries of a list by due time.
func earliest(list []Pending, max int) []Pending {
	slices.SortFunc(list, func(a, b Pending) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Offset, b.Offset))
	})
	return list[:min(len(list), max)]
}

// In returns the offsets of the deferred messages that are due in a window, in order.
func (l Deferrals) In(w Window) []seq.Offset {
	s := l.s
	var list []seq.Offset
	eachDeferred(s, func(m *message) {
		if w.has(s.moment(m.due)) {
			list = append(list, m.offset)
		}
	})
	slices.Sort(list)
	return list
}

// Advance makes deferred messages ready, whatever delay their publishers chose, in the order of the
// log. It returns those that were deferred.
func (l Deferrals) Advance(offsets []seq.Offset) (done []seq.Offset) {
	s := l.s
	done = eachOf(s, offsets, func(slot int32) {
		s.fall(slot)
		s.t.slots[slot].delayed = advanced
	})
	promoteFallen(&s.ledger)
	return done
}

// Cancel finishes deferred messages. It returns those that were deferred.
func (l Deferrals) Cancel(offsets []seq.Offset) (done []seq.Offset) {
	return eachOf(l.s, offsets, l.s.finish)
}

// eachOf calls f with the slots of the messages that are deferred, and returns their offsets.
func eachOf(s *State, offsets []seq.Offset, f func(slot int32)) (done []seq.Offset) {
	drawThese(&s.ledger, offsets)
	for _, o := range offsets {
		slot, ok := s.slotOf(o)
		if !ok || s.t.slots[slot].place != deferred || s.t.slots[slot].delayed == byNote {
			continue
		}
		f(slot)
		done = append(done, o)
		s.revision++
	}
	return done
}

// Advanced reports whether an operator advanced a deferred message that has not been deferred again
// since.
func (l Deferrals) Advanced(o seq.Offset) bool {
	s := l.s
	slot, ok := s.slotOf(o)
	return ok && s.t.slots[slot].place != deferred && s.t.slots[slot].delayed == advanced
}

// Until returns until when a message is deferred, and false if it is not.
func (l Deferrals) Until(o seq.Offset) (time.Time, bool) {
	s := l.s
	if d, far := farAt(&s.ledger, o); far {
		return s.moment(d.At), true
	}
	slot, ok := s.slotOf(o)
	if !ok || s.t.slots[slot].place != deferred {
		return time.Time{}, false
	}
	return s.moment(s.t.slots[slot].due), true
}
