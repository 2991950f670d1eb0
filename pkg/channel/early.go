package channel

import "github.com/brokerd/brokerd/pkg/seq"

// markEarly records that a message is tracked that the cursor has not reached. Addressed and deferred
// messages are tracked from their commit, which in a paused topic is long before they are visible.
func (t *tracked) markEarly(o seq.Offset) { t.early = max(t.early, o+1) }

// hidden returns how many messages at or after the visible end are finished, in flight or deferred.
func hidden(l *ledger, end seq.Offset) (n int64) {
	n = int64(l.done.LenFrom(end))
	if l.t == nil || l.t.early <= end {
		return n
	}
	for i := range l.t.slots {
		if m := &l.t.slots[i]; m.offset >= end && (m.place == inFlight || m.place == held || m.place == deferred) {
			n++
		}
	}
	return n + l.t.far.LenFrom(end)
}
