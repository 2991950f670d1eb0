package operate

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestUndoReturnsToWhatTheLogHas: retention has deleted messages since the position was saved, and a leader without the
// last ones may have been elected.
func TestUndoReturnsToWhatTheLogHas(t *testing.T) {
	saved := meta.SavedPartition{Floor: 10, Finished: [][2]seq.Offset{{12, 14}, {20, 30}}}
	for _, c := range []struct {
		name             string
		start, committed seq.Offset
		to               seq.Offset
		finished         []position.Range
		gone             int64
	}{
		{"all of it", 0, 100, 10, []position.Range{{From: 12, End: 14}, {From: 20, End: 30}}, 0},
		{"finished messages are deleted", 10, 100, 10, []position.Range{{From: 12, End: 14}, {From: 20, End: 30}}, 0},
		{"unfinished ones, too", 15, 100, 15, []position.Range{{From: 12, End: 14}, {From: 20, End: 30}}, 3},
		{"the end is another's", 0, 25, 10, []position.Range{{From: 12, End: 14}, {From: 20, End: 25}}, 0},
		{"the floor is another's", 0, 5, 5, nil, 0},
		{"both", 3, 5, 5, nil, 0},
	} {
		to, finished, gone := returnTo(&saved, c.start, c.committed)
		if to != c.to || !slices.Equal(finished, c.finished) || gone != c.gone {
			t.Errorf("%s: to %d, finished %v, %d gone", c.name, to, finished, gone)
		}
	}
}
