package channel

import (
	"math"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// soon is how long before its due time a deferred message is tracked like others. Messages that are
// due in more than twice that time are packed.
const soon = 30 * time.Second

// farEnough reports whether a message with a due time should be packed. Messages with an order are
// not packed.
func farEnough(l *ledger, now, due int64) bool {
	return due > addTime(now, 2*soonOf(l)) && due < math.MaxInt64 && !l.ordered && l.keyed == nil
}

// soonOf returns how long before its due time a message is tracked.
func soonOf(l *ledger) time.Duration {
	if l.nearby > 0 {
		return l.nearby
	}
	return soon
}

// postpone defers an untracked message from now until it is due.
func postpone(l *ledger, o seq.Offset, attempts seq.Attempts, now, due int64) {
	l.deferred++
	if farEnough(l, now, due) {
		l.recorder.add(o)
		l.track().markEarly(o)
		l.t.far.Add(position.Deferral{Offset: o, At: due, Delay: time.Duration(due - now), Attempts: attempts})
		return
	}
	l.track().intoDeferred(l.trackAhead(o, attempts), now, due)
}

// draw tracks messages that were far.
func draw(l *ledger, list []position.Deferral) {
	for _, d := range list {
		if d.Offset >= l.cursor {
			l.ahead++
		}
		l.t.intoDeferred(l.t.add(d.Offset, d.Attempts), d.At-int64(d.Delay), d.At)
	}
}

// drawSoon tracks messages that are due soon.
func drawSoon(l *ledger, now int64) {
	if l.t != nil && l.t.far.Len() > 0 {
		draw(l, l.t.far.Soonest(now, addTime(now, soonOf(l)), addTime(now, 2*soonOf(l))))
	}
}

// drawThese tracks those of the given messages that are far.
func drawThese(l *ledger, offsets []seq.Offset) {
	if l.t == nil || l.t.far.Len() == 0 {
		return
	}
	offsets = slices.Clone(offsets)
	slices.Sort(offsets)
	draw(l, l.t.far.Take(slices.Compact(offsets)))
}

// drawRange tracks the far messages of a range.
func drawRange(l *ledger, from, end seq.Offset) {
	if l.t == nil {
		return
	}
	drawWhere(l, from, end, func(position.Deferral) bool { return true })
}

// drawWhere tracks the wanted far messages of a range. It visits all of them.
func drawWhere(l *ledger, from, end seq.Offset, wanted func(position.Deferral) bool) {
	l.t.far.Remove(from, end, wanted, func(list []position.Deferral) { draw(l, list) })
}

// slotOf returns the slot of an unfinished message below the cursor or tracked ahead of it. A far
// message is tracked first.
func (l *ledger) slotOf(o seq.Offset) (int32, bool) {
	slot, ok := l.t.find(o)
	if !ok && l.t != nil && o >= l.floor && l.t.far.Had(o) && !l.done.Contains(o) {
		draw(l, l.t.far.Take([]seq.Offset{o}))
		return l.t.index.get(o)
	}
	return slot, ok
}

// isFar reports whether a message is deferred and far.
func isFar(l *ledger, o seq.Offset) bool {
	if l.t == nil || o < l.floor || !l.t.far.Had(o) || l.done.Contains(o) {
		return false
	}
	_, tracked := l.t.index.get(o)
	return !tracked
}

// farAt returns the message at an offset if it is far.
func farAt(l *ledger, o seq.Offset) (position.Deferral, bool) {
	if !isFar(l, o) {
		return position.Deferral{}, false // without reading a page
	}
	r := l.t.far.Reader()
	return r.Find(o)
}

// deferralOf returns a deferred message in the form of a position.
func deferralOf(l *ledger, m *message) position.Deferral {
	return position.Deferral{Offset: m.offset, At: l.onWall(m.due), Delay: max(1, subTime(m.due, m.taken)), Attempts: m.attempts}
}
