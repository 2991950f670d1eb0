package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// tailFrom is where tail starts in each partition.
type tailFrom struct {
	edge   api.SeekEdge // "": the default
	offset uint64       // if edge is neither start nor end
}

const tailAtOffset api.SeekEdge = "offset"

func parseTailFrom(text string) (tailFrom, error) {
	switch edge := api.SeekEdge(text); edge {
	case "", api.SeekStart, api.SeekEnd:
		return tailFrom{edge: edge}, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return tailFrom{}, usageError("--from %q is not a valid position: use start, end or a sequence number", text)
	}
	return tailFrom{tailAtOffset, n}, nil
}

// first returns the first offset in a partition for n messages; 0: new messages only.
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

// topicTail reads the log of a topic continuously. While nodes do not respond, it continues with
// the partitions of the others, and prints a note.
type topicTail struct {
	g      *globals
	topic  string
	from   tailFrom
	n      int            // number of last messages; 0: only new ones
	chosen string         // the filter; "": all messages
	next   map[int]uint64 // by partition
	none   map[int]looked // by partition: ranges without a match
	warn   io.Writer
	state  string // the last note
}

// looked is a range of a partition without a match, as far as the leader of an epoch knew the log.
// A new leader may not know yet that the whole log is committed, and then has not searched the
// end, so the range counts only if the epoch is unchanged after the query.
type looked struct{ from, end, epoch uint64 }

// skip continues after a range without a match, if it was searched completely.
func (t *topicTail) skip(q api.Partition) {
	if l, ok := t.none[q.Partition]; ok && l.epoch == q.Epoch && l.from == t.next[q.Partition] {
		t.next[q.Partition] = l.end
	}
	delete(t.none, q.Partition)
}

// tailPeekMax is how many messages one request asks for.
const tailPeekMax = 100

func tailTopic(cmd *cobra.Command, g *globals, o tailOptions, topic string) error {
	from, err := parseTailFrom(o.from)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	tail := topicTail{g: g, topic: topic, from: from, n: o.n, chosen: o.chosen(), next: map[int]uint64{}, none: map[int]looked{}, warn: cmd.ErrOrStderr()}
	if tail.chosen != "" {
		tail.n = 0
	}
	t, err := tail.describe(ctx)
	if err == nil && tail.chosen != "" { // an invalid filter fails now instead of with the next message
		_, err = query(ctx, g, func(ctx context.Context) ([]api.Peeked, error) {
			return g.client.Peek(ctx, topic, "", api.PeekOptions{Partition: new(int), From: &t.Partitions[0].CommittedEnd, Max: 1, Filter: tail.chosen})
		})
	}
	if err != nil {
		return err
	}
	tail.learn(ctx)
	page := g.page(cmd)
	for left := o.n; ; {
		messages, err := tail.read(ctx, t.Partitions)
		if err != nil && !passing(err) {
			return err
		}
		tail.report(t.MissingNodes, err)
		if from.edge == "" && left == o.n && tail.n > 0 {
			messages = messages[max(0, len(messages)-o.n):] // the last messages over all partitions
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
			beat.Pause(ctx, pollInterval)
		}
		for {
			described, err := tail.describe(ctx)
			if err == nil {
				t = described
				break
			}
			if !passing(err) || ctx.Err() != nil {
				return err
			}
			tail.report(nil, err)
			beat.Pause(ctx, redialPause)
		}
	}
}

// describe returns the current topic. A partition that responds for the first time starts at its
// position.
func (t *topicTail) describe(ctx context.Context) (*api.Topic, error) {
	d, err := query(ctx, t.g, func(ctx context.Context) (*api.Topic, error) { return t.g.client.Topic(ctx, t.topic) })
	if err != nil {
		return nil, err
	}
	for _, q := range d.Partitions {
		if _, begun := t.next[q.Partition]; !begun && q.Leader != "" && len(q.MissingNodes) == 0 {
			t.next[q.Partition] = t.from.first(q, t.n)
		}
	}
	return d, nil
}

// learn adds all nodes to the client, because the given one may stop.
func (t *topicTail) learn(ctx context.Context) {
	c, err := query(ctx, t.g, t.g.client.Cluster)
	if err != nil {
		return // continue with the given addresses
	}
	for _, n := range c.Nodes {
		t.g.client.Know(n.HTTPAddress)
	}
}

// report prints what is missing, when that changes.
func (t *topicTail) report(missing []string, err error) {
	state := ""
	switch {
	case len(missing) > 0:
		state = "no answer from " + list(missing) + ": messages from partitions led there are delayed"
	case err != nil:
		state = err.Error() + ": retrying"
	}
	if state == t.state {
		return
	}
	if t.state = state; state == "" {
		state = "all partitions respond again"
	}
	_, _ = fmt.Fprintln(t.warn, state) // an error of stderr cannot be reported
}

// read returns the new messages of the partitions, by time of publishing. It queries only
// partitions with new messages, and reads all of them. With an error, it returns the messages of
// the other partitions.
func (t *topicTail) read(ctx context.Context, partitions []api.Partition) ([]api.Peeked, error) {
	var all []api.Peeked
	var failed error
	for _, q := range partitions {
		if _, begun := t.next[q.Partition]; !begun {
			continue
		}
		t.skip(q)
		for t.next[q.Partition] < q.CommittedEnd {
			from := t.next[q.Partition]
			some, err := query(ctx, t.g, func(ctx context.Context) ([]api.Peeked, error) {
				return t.g.client.Peek(ctx, t.topic, "", api.PeekOptions{Partition: &q.Partition, From: &from, Max: tailPeekMax, Filter: t.chosen})
			})
			if err != nil {
				failed = err // continue with the other partitions
				break
			}
			if len(some) == 0 && t.chosen != "" { // no match in the searched range
				t.none[q.Partition] = looked{from, min(from+api.MaxFiltered, q.CommittedEnd), q.Epoch}
				break
			}
			if len(some) == 0 {
				break // deleted by retention meanwhile
			}
			all = append(all, some...)
			t.next[q.Partition] = some[len(some)-1].Seq + 1
		}
	}
	slices.SortStableFunc(all, func(a, b api.Peeked) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Seq, b.Seq))
	})
	return all, failed
}
