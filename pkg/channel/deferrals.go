package channel

import (
	"cmp"
	"iter"
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

// Deferrals are the deferred messages of a channel.
type Deferrals struct{ l *ledger }

// Deferrals returns the deferred messages.
func (v View) Deferrals() Deferrals { return Deferrals(v) }

// List returns deferred messages, and their total number in the window. It takes time
// proportional to the number of tracked messages.
func (x Deferrals) List(page DeferredPage) (list []Pending, total int) {
	l := x.l
	for m := range x.in(page.Window) {
		total++
		due := l.moment(m.due)
		if due.Before(page.After) || due.Equal(page.After) && m.offset < page.From {
			continue
		}
		if list = append(list, pendingOf(l, m)); len(list) >= 2*page.Max+1024 {
			list = earliest(list, page.Max)
		}
	}
	return earliest(list, page.Max), total
}

// in returns the deferred messages that are due in a window, except those whose attempts are being
// recorded: they are about to be requeued.
func (x Deferrals) in(w Window) iter.Seq[*message] {
	return func(yield func(*message) bool) {
		for m := range unfinished(x.l) {
			if m.place == deferred && m.delayed != byRecording && w.has(x.l.moment(m.due)) && !yield(m) {
				return
			}
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
func (x Deferrals) In(w Window) []seq.Offset {
	var list []seq.Offset
	for m := range x.in(w) {
		list = append(list, m.offset)
	}
	slices.Sort(list)
	return list
}

// Advanced reports whether an operator advanced a deferred message that has not been deferred again
// since.
func (x Deferrals) Advanced(o seq.Offset) bool {
	l := x.l
	slot, ok := l.slotOf(o)
	return ok && l.t.slots[slot].place != deferred && l.t.slots[slot].delayed == advanced
}

// Until returns until when a message is deferred, and false if it is not.
func (x Deferrals) Until(o seq.Offset) (time.Time, bool) {
	l := x.l
	if d, far := farAt(l, o); far {
		return l.moment(d.At), true
	}
	slot, ok := l.slotOf(o)
	if !ok || l.t.slots[slot].place != deferred {
		return time.Time{}, false
	}
	return l.moment(l.t.slots[slot].due), true
}
