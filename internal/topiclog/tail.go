package topiclog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// From is where a tail starts in each partition.
type From struct {
	Edge   api.SeekEdge // "": the default
	Offset uint64       // with AtOffset
}

// AtOffset is the edge of a From with an offset.
const AtOffset api.SeekEdge = "offset"

// in returns the first offset in a partition for n messages; 0: new messages only.
func (f From) in(q api.Partition, n int) uint64 {
	switch f.Edge {
	case api.SeekStart:
		return q.LogStart
	case api.SeekEnd:
		return q.CommittedEnd
	case AtOffset:
		return max(f.Offset, q.LogStart)
	}
	return q.CommittedEnd - min(uint64(n), q.CommittedEnd-q.LogStart)
}

// TailOptions define what a tail shows.
type TailOptions struct {
	From   From
	Max    int       // it ends after as many messages. 0: no limit
	Filter string    // "": all messages
	Follow bool      // without From and Filter: go on after the last Max messages, until Max were shown
	Warn   io.Writer // gets notes about nodes that do not respond
}

const (
	// pollInterval is how often a topic is polled for new messages.
	pollInterval = 200 * time.Millisecond
	// retryPause is the delay between two attempts to reach a node.
	retryPause = 300 * time.Millisecond
	// tailPage is how many messages one request asks for.
	tailPage = 100
)

// tail reads the log of a topic continuously. While nodes do not respond, it continues with the
// partitions of the others, and prints a note.
type tail struct {
	log   *Log
	o     TailOptions
	last  int                  // number of last messages; 0: only new ones
	next  map[int]uint64       // by partition
	none  map[int]looked       // by partition: ranges without a match
	held  map[int][]api.Peeked // by partition: messages that were read and not shown yet, at most tailPage
	state string               // the last note
}

// looked is a range of a partition without a match, as far as the leader of an epoch knew the log.
// A new leader may not know yet that the whole log is committed, and then has not searched the
// end, so the range counts only if the epoch is unchanged after the query.
type looked struct{ from, end, epoch uint64 }

// Tail calls show with the messages, by time of publishing as far as they arrive together.
func (l *Log) Tail(ctx context.Context, o TailOptions, show func(api.Peeked) error) error {
	t := tail{log: l, o: o, last: o.Max, next: map[int]uint64{}, none: map[int]looked{}, held: map[int][]api.Peeked{}}
	if o.Filter != "" {
		t.last = 0
	}
	is, err := t.describe(ctx)
	if err == nil && o.Filter != "" { // an invalid filter fails now instead of with the next message
		_, err = l.peek(ctx, api.PeekOptions{Partition: new(int), From: &is.Partitions[0].CommittedEnd, Max: 1, Filter: o.Filter})
	}
	if err != nil {
		return err
	}
	t.learn(ctx)
	for left := o.Max; ; {
		messages, more, err := t.read(ctx, is.Partitions)
		if o.From.Edge == "" && left == o.Max && t.last > 0 { // the last messages over all partitions
			for more && err == nil {
				var later []api.Peeked
				later, more, err = t.read(ctx, is.Partitions)
				messages = append(messages, later...)
				messages = messages[max(0, len(messages)-o.Max):]
			}
			messages = messages[max(0, len(messages)-o.Max):]
		}
		lasting := err != nil && !passing(err)
		if !lasting {
			t.report(is.MissingNodes, err)
		}
		for _, m := range messages {
			if err := show(m); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if err == nil && !more && t.ends(is) {
			return nil
		}
		if lasting { // the messages of the other partitions are shown
			return err
		}
		if more && err == nil && len(t.none) == 0 { // a range without a match counts after the next description
			continue
		}
		if len(messages) == 0 {
			beat.Pause(ctx, pollInterval)
		}
		for {
			described, err := t.describe(ctx)
			if err == nil {
				is = described
				break
			}
			if !passing(err) || ctx.Err() != nil {
				return err
			}
			t.report(nil, err)
			beat.Pause(ctx, retryPause)
		}
	}
}

// ends reports whether the tail shows the last messages only, and has them of all partitions that have a leader.
func (t *tail) ends(is *api.Topic) bool {
	if t.o.From.Edge != "" || t.last == 0 || t.o.Follow || len(is.MissingNodes) > 0 {
		return false
	}
	if n := len(is.Partitions) - len(t.next); n > 0 {
		_, _ = fmt.Fprintf(t.o.Warn, "%d of %d partitions have no leader: their messages are not shown\n", n, len(is.Partitions))
	}
	return true
}

// passing reports whether a failed request may succeed on another node, or soon.
func passing(err error) bool {
	return api.CodeOf(err).Retryable() || errors.Is(err, context.DeadlineExceeded)
}

// skip continues after a range without a match, if it was searched completely.
func (t *tail) skip(q api.Partition) {
	if l, ok := t.none[q.Partition]; ok && l.epoch == q.Epoch && l.from == t.next[q.Partition] {
		t.next[q.Partition] = l.end
	}
	delete(t.none, q.Partition)
}

// describe returns the current topic. A partition that responds for the first time starts at its
// position.
func (t *tail) describe(ctx context.Context) (*api.Topic, error) {
	d, err := t.log.describe(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range d.Partitions {
		if _, begun := t.next[q.Partition]; !begun && q.Leader != "" && len(q.MissingNodes) == 0 {
			t.next[q.Partition] = t.o.From.in(q, t.last)
		}
	}
	return d, nil
}

// learn adds all nodes to the client, because the given one may stop.
func (t *tail) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.log.Timeout)
	defer cancel()
	c, err := t.log.Client.Cluster(ctx)
	if err != nil {
		return // continue with the given addresses
	}
	for _, n := range c.Nodes {
		t.log.Client.Know(n.HTTPAddress)
	}
}

// report prints what is missing, when that changes.
func (t *tail) report(missing []string, err error) {
	state := ""
	switch {
	case len(missing) > 0:
		state = "no answer from " + strings.Join(missing, ",") + ": messages from partitions led there are delayed"
	case err != nil:
		state = err.Error() + ": retrying"
	}
	if state == t.state {
		return
	}
	if t.state = state; state == "" {
		state = "all partitions respond again"
	}
	_, _ = fmt.Fprintln(t.o.Warn, state) // an error of stderr cannot be reported
}

// read returns new messages of the partitions, by time of publishing, and whether there are more. It reads at most
// a page of each partition: a message is returned once the next one of every other partition is known, and the rest
// is held. With an error, it returns the messages of the other partitions.
func (t *tail) read(ctx context.Context, partitions []api.Partition) (ready []api.Peeked, more bool, failed error) {
	behind := map[int]bool{}
	for _, q := range partitions {
		if _, begun := t.next[q.Partition]; !begun {
			continue
		}
		got, err := t.fill(ctx, q)
		if err != nil {
			failed = err // continue with the other partitions
		}
		behind[q.Partition] = got && t.next[q.Partition] < q.CommittedEnd
	}
	for len(t.held) > 0 {
		first := -1
		for i, held := range t.held {
			if first < 0 || cmp.Or(held[0].Timestamp.Compare(t.held[first][0].Timestamp), cmp.Compare(i, first)) < 0 {
				first = i
			}
		}
		ready = append(ready, t.held[first][0])
		if t.held[first] = t.held[first][1:]; len(t.held[first]) > 0 {
			continue
		}
		if delete(t.held, first); behind[first] {
			return ready, true, failed
		}
	}
	return ready, false, failed
}

// fill reads a page of a partition, unless messages of it are held or there are no new ones, and reports whether some
// are held.
func (t *tail) fill(ctx context.Context, q api.Partition) (bool, error) {
	if len(t.held[q.Partition]) > 0 {
		return true, nil
	}
	t.skip(q)
	from := t.next[q.Partition]
	if from >= q.CommittedEnd {
		return false, nil
	}
	some, err := t.log.peek(ctx, api.PeekOptions{Partition: &q.Partition, From: &from, Max: tailPage, Filter: t.o.Filter})
	if e, is := errors.AsType[*api.Error](err); is && e.Lost != nil && e.Lost.Next > from {
		t.next[q.Partition] = e.Lost.Next
		_, _ = fmt.Fprintf(t.o.Warn, "%s/%d: messages %d to %d are lost: the log is damaged, and no replica holds them; going on after them, as consumers do\n",
			t.log.Topic, q.Partition, max(from, e.Lost.From), e.Lost.Next-1)
		return t.fill(ctx, q)
	}
	switch {
	case err != nil:
		return false, err
	case len(some) > 0:
		t.held[q.Partition], t.next[q.Partition] = some, some[len(some)-1].Seq+1
		return true, nil
	case t.o.Filter != "": // no match in the searched range
		t.none[q.Partition] = looked{from, min(from+api.MaxFiltered, q.CommittedEnd), q.Epoch}
	} // otherwise they were deleted by retention meanwhile
	return false, nil
}
