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
		return tailFrom{}, usageError("--from %q is not a valid position: use start, end or a sequence number", text)
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

// topicTail reads the log of a topic on and on. While nodes do not answer it continues with
// what the others have, and says so.
type topicTail struct {
	g      *globals
	topic  string
	from   tailFrom
	n      int            // the last ones that are shown first; 0: those that come
	chosen string         // the filter; "": all are
	next   map[int]uint64 // by partition
	none   map[int]looked // by partition, where nothing was chosen
	warn   io.Writer
	state  string // what was said last
}

// looked is a part of a partition in which nothing was chosen, as far as the leader of an epoch
// knew it. A new leader may not know yet that all of it is committed, and then has not looked at
// the end: so it counts once that epoch is seen behind the question, too.
type looked struct{ from, end, epoch uint64 }

// skip goes on behind what was looked at in vain, if that was all there.
func (t *topicTail) skip(q api.Partition) {
	if l, ok := t.none[q.Partition]; ok && l.epoch == q.Epoch && l.from == t.next[q.Partition] {
		t.next[q.Partition] = l.end
	}
	delete(t.none, q.Partition)
}

// tailPeekMax is how many messages are asked for at a time.
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
	if err == nil && tail.chosen != "" { // one that is not valid fails now, not with the next message
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

// describe returns the topic as it is now. A partition that answers for the first time
// begins at its place.
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

// learn has the client know every node: the one that it was given may stop.
func (t *topicTail) learn(ctx context.Context) {
	c, err := query(ctx, t.g, t.g.client.Cluster)
	if err != nil {
		return // it continues with those that were given
	}
	for _, n := range c.Nodes {
		t.g.client.Know(n.HTTPAddress)
	}
}

// report says what is not seen, when that changes.
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

// read returns what has come to the partitions, by time of publishing. It asks
// only those that have something new, and each for all of it. With an error, it is
// what the other partitions have.
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
				failed = err // the other partitions go on
				break
			}
			if len(some) == 0 && t.chosen != "" { // none of those that it has looked at
				t.none[q.Partition] = looked{from, min(from+api.MaxFiltered, q.CommittedEnd), q.Epoch}
				break
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
	return all, failed
}
