package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Bounds of stragglers: at most maxStragglers messages, and at most one in a number of messages of
// the log.
const (
	maxStragglers     = 1024
	maxStragglerShare = 16
)

// Stragglers returns the unfinished messages below an offset, if they are few of those since the
// log's start, and the channel has reached all of them. An ordered channel has none, nor has one
// with a message that will be ready at once. In a channel that orders by key, messages with a key
// do not count.
func (v View) Stragglers(logStart, end seq.Offset, now time.Time) []Pending {
	l := v.l
	if l.ordered || end <= l.floor {
		return nil
	}
	most := min(maxStragglers, max(1, int64(end-logStart)/maxStragglerShare))
	list, all := pendingBelow(l, end, int(most))
	if !all {
		return nil
	}
	for _, m := range list {
		if m.State == Deferred && !m.Due.After(now) {
			return nil
		}
	}
	return slices.DeleteFunc(list, func(m Pending) bool { return Keyed{l}.MayHaveKey(m.Offset) })
}
