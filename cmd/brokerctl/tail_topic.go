package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// tailFrom is where tail begins in each partition.
type tailFrom struct {
	edge   api.SeekEdge // "": the default
	offset uint64       // where edge is none of the others
}

const tailAtOffset api.SeekEdge = "offset"

func parseTailFrom(text string) (tailFrom, error) {
	switch edge := api.SeekEdge(text); edge {
	case "", api.SeekStart, api.SeekEnd:
		return tailFrom{edge: edge}, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return tailFrom{}, usageError("--from %q is no place: write start, end or a sequence number", text)
	}
	return tailFrom{tailAtOffset, n}, nil
}

// first returns where to begin in a partition, if n messages are wanted; 0:
// all that come.
func (f tailFrom) first(q api.Partition, n int) uint64 {
	switch f.edge {
	case api.SeekStart:
		return q.LogStart
	case api.SeekEnd:
		return q.CommittedEnd
	case tailAtOffset:
		return max(f.offset, q.LogStart)
	}
	return q.CommittedEnd - min(uint64(n), q.CommittedEnd-q.LogStart)
}

// topicTail reads the log of a topic on and on.
type topicTail struct {
	g     *globals
	topic string
	next  map[int]uint64 // by partition
}

// tailPeekMax is how many messages are asked for at a time.
const tailPeekMax = 100

func tailTopic(cmd *cobra.Command, g *globals, o tailOptions, topic string) error {
	from, err := parseTailFrom(o.from)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return err
	}
	tail := topicTail{g, topic, map[int]uint64{}}
	for _, q := range t.Partitions {
		tail.next[q.Partition] = from.first(q, o.n)
	}
	page := g.page(cmd)
	for left := o.n; ; {
		messages, err := tail.read(ctx, t.Partitions)
		if err != nil {
			return err
		}
		if from.edge == "" && left == o.n && o.n > 0 {
			messages = messages[max(0, len(messages)-o.n):] // the last of all partitions
		}
		for _, m := range messages {
			if err := g.writeMessage(page, m); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if len(messages) == 0 {
			pause(ctx, pollInterval)
		}
		t, err = query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
		if err != nil {
			return err
		}
	}
}

// read returns what has come to the partitions, by time of publishing. It asks
// only those that have something new, and each for all of it.
func (t *topicTail) read(ctx context.Context, partitions []api.Partition) ([]api.Peeked, error) {
	var all []api.Peeked
	for _, q := range partitions {
		for t.next[q.Partition] < q.CommittedEnd {
			from := t.next[q.Partition]
			some, err := query(ctx, t.g, func(ctx context.Context) ([]api.Peeked, error) {
				return t.g.client.Peek(ctx, t.topic, "", api.PeekOptions{Partition: &q.Partition, From: &from, Max: tailPeekMax})
			})
			if err != nil {
				return nil, err
			}
			if len(some) == 0 {
				break // retention was faster
			}
			all = append(all, some...)
			t.next[q.Partition] = some[len(some)-1].Seq + 1
		}
	}
	slices.SortStableFunc(all, func(a, b api.Peeked) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Seq, b.Seq))
	})
	return all, nil
}
