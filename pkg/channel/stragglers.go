package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// maxStragglers are the most messages that count as stragglers, and one of so many
// messages in the log.
const (
	maxStragglers     = 1024
	maxStragglerShare = 16
)

// Stragglers returns the messages below an offset that are not finished, if they are few of
// those from the log's start on, and all of them have been met. An ordered channel has
// none, nor has one of which a message will be ready at once; of one that orders by key,
// messages with a key are none.
func Stragglers(s *State, logStart, end seq.Offset, now time.Time) []Pending {
	if s.ordered || end <= s.floor {
		return nil
	}
	most := min(maxStragglers, max(1, int64(end-logStart)/maxStragglerShare))
	list, all := pendingBelow(s, end, int(most))
	if !all {
		return nil
	}
	for _, m := range list {
		if m.State == Deferred && !m.Due.After(now) {
			return nil
		}
	}
	return slices.DeleteFunc(list, func(m Pending) bool { return KeyedOf(s).Binds(m.Offset) })
}
