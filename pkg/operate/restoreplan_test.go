package operate

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// What the deleted channel had finished beyond its position is not redelivered by a restore.
func TestFinishedMessagesOfARestoreAreCountedApart(t *testing.T) {
	p := topic.Place{Floor: 10, Target: 4, Finished: []position.Range{{From: 12, End: 14}}}
	for _, x := range []struct {
		from, end        seq.Offset
		finished, others int64
	}{{2, 4, 0, 0}, {2, 6, 2, 0}, {8, 11, 2, 1}, {11, 15, 2, 2}, {13, 20, 1, 6}, {5, 5, 0, 0}} {
		if finished, others := finishedIn([][2]seq.Offset{{x.from, x.end}}, p); finished != x.finished || others != x.others {
			t.Errorf("%d to %d: %d finished and %d others, want %d and %d", x.from, x.end, finished, others, x.finished, x.others)
		}
	}
}
