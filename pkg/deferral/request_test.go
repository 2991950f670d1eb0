package deferral

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Pages of at most q.Max messages, each after the last message of the one before, list all
// messages of all partitions once, by due time, also those that are due at the same time.
func TestPagesListEachMessageOnce(t *testing.T) {
	due := func(s int) time.Time { return time.Unix(int64(s), 0) }
	partitions := [][]Message{
		{{Offset: 4, Due: due(1)}, {Offset: 2, Due: due(2)}, {Offset: 3, Due: due(2)}},
		{{Offset: 2, Due: due(2)}, {Offset: 1, Due: due(3)}},
		{},
		{{Offset: 0, Due: due(2)}},
	}
	want := []Place{{due(1), 0, 4}, {due(2), 0, 2}, {due(2), 0, 3}, {due(2), 1, 2}, {due(2), 3, 0}, {due(3), 1, 1}}
	for most := 1; most <= len(want)+1; most++ {
		q := Query{Max: most}
		for read := 0; ; {
			pages := make([]Page, len(partitions))
			for i, all := range partitions {
				asked := q.In(i)
				pages[i].Total = len(all)
				for _, m := range all {
					if c := m.Due.Compare(asked.After); (c > 0 || c == 0 && m.Offset >= asked.From) && len(pages[i].Messages) < asked.Max {
						pages[i].Messages = append(pages[i].Messages, m)
					}
				}
			}
			found := q.Merge(pages)
			if found.Total != len(want) || len(found.Messages) > most {
				t.Fatalf("%d at a time: %+v", most, found)
			}
			for _, m := range found.Messages {
				last := Place{m.Due, m.Partition, m.Offset}
				if read == len(want) || last != want[read] {
					t.Fatalf("%d at a time: message %d is %+v", most, read, last)
				}
				q.After = &last
				read++
			}
			if len(found.Messages) < most {
				if read != len(want) {
					t.Errorf("%d at a time: %d of %d messages", most, read, len(want))
				}
				break
			}
		}
	}
}

func TestChangeOfNamedMessagesTouchesTheirPartitionsOnly(t *testing.T) {
	named := Change{Named: map[int][]seq.Offset{1: {5, 7}}}
	if named.Touches(0) || !named.Touches(1) || len(named.In(1).Offsets) != 2 {
		t.Errorf("%+v in partition 1", named.In(1))
	}
	windowed := Change{}
	if !windowed.Touches(0) || windowed.In(0).Offsets != nil {
		t.Errorf("%+v in partition 0", windowed.In(0))
	}
}
