package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/seq"
)

type tailOptions struct {
	n       int
	from    string
	tcp     []string
	timeout time.Duration
	filter  string
	tag     string
}

// redialPause is the delay between two attempts to connect to a node.
const redialPause = 300 * time.Millisecond

// chosen returns the filter of a topic's messages; "": all messages.
func (o *tailOptions) chosen() string {
	switch {
	case o.tag == "":
		return o.filter
	case o.filter == "":
		return "tag == " + strconv.Quote(o.tag)
	}
	return "tag == " + strconv.Quote(o.tag) + " && (" + o.filter + ")"
}

// pollInterval is how often a topic is polled for new messages.
const pollInterval = 200 * time.Millisecond

func newMessageTailCommand(g *globals) *cobra.Command {
	var o tailOptions
	cmd := acting(g, &cobra.Command{
		Use:   "tail TOPIC[/CHANNEL]",
		Short: "Print messages as they arrive",
		Long: `Print messages as they arrive, until interrupted or until N were printed.

For a TOPIC, the log itself is read: nothing is consumed. It starts after the newest message, or
with -n at the last N messages.

For a TOPIC/CHANNEL, messages are consumed: each is finished once it is printed, and other
consumers of the channel do not receive it. A missing channel is created; one named
NAME#ephemeral is deleted when the command ends.

With --filter, the nodes choose messages of a TOPIC, and -n stops after N of them. With --tag, messages
with this tag are chosen; for a TOPIC/CHANNEL, the command consumes as a consumer with that tag.

Only the body is printed, one line per message; -o wide adds partition, id, time and attempts,
-o json prints one object per line.`,
		Example: `  brokerctl message tail orders
  brokerctl message tail orders --filter 'header.type == "order" && size > 1000' --from start
  brokerctl message tail orders/debug#ephemeral -n 10 -o json`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(at.channel); err != nil {
			return err
		}
		return tail(cmd, g, o, at.topic, at.channel)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *tailOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&o.n, "n", "n", 0, "stop after `N` messages; 0 means no limit")
	f.StringVar(&o.from, "from", "", "for a topic, `POSITION` to start at: start, end or a sequence number")
	f.StringArrayVar(&o.tcp, "tcp", nil, "consume from this `HOST:PORT` (default: advertised by the topic's leaders)")
	filterVar(f, &o.filter, "messages of a topic")
	f.StringVar(&o.tag, "tag", "", "only messages with this `TAG`")
	durationVar(f, &o.timeout, "msg-timeout", "redeliver a message not printed within this time (default: the broker's message timeout)")
}

func (o *tailOptions) validate(channel string) error {
	switch {
	case o.n < 0:
		return usageError("-n must not be below 0")
	case channel != "" && o.filter != "":
		return usageError("--filter applies to topics only; a channel has its own: brokerctl channel create --filter")
	case o.tag != "" && !header.ValidTag(o.tag):
		return usageError("--tag is %q, must be up to %d letters, digits, _ and -", o.tag, header.MaxTag)
	case channel != "" && o.from != "":
		return usageError("--from applies to topics only; to move a channel, use channel seek")
	}
	_, err := parseTailFrom(o.from)
	return err
}

// tail succeeds when it is interrupted, which is the usual way to end it.
func tail(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	var err error
	if channel == "" {
		err = tailTopic(cmd, g, o, topic)
	} else {
		err = tailChannel(cmd, g, o, topic, channel)
	}
	if isInterrupted(cmd.Context()) {
		return nil
	}
	return err
}

// tailReady is how many messages may wait to be printed.
const tailReady = 64

func tailChannel(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	ctx := cmd.Context()
	target, err := targetOf(cmd, g, topic, o.tcp, false)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(target.found.Channels, func(c api.ChannelSummary) bool { return c.Name == channel })
	if !known && !g.quiet && !strings.HasSuffix(channel, "#ephemeral") {
		target.say("channel %s/%s does not exist: it is created now, and keeps messages until it is deleted", topic, channel)
	}
	ready := tailReady
	if o.n > 0 {
		ready = min(ready, o.n)
	}
	s, err := target.subscribe(ctx, channel, client.WithMaxInFlight(ready), client.WithMsgTimeout(o.timeout), client.WithTag(o.tag))
	if err != nil {
		return err
	}
	ids, err := numberingOf(ctx, g, topic)
	if err != nil {
		target.say("cannot show message positions: %v", err)
	}
	page := g.page(cmd)
	return s.take(o.n, func(m *client.Message) error { return g.writeMessage(page, peekedOf(m, ids)) })
}

// numberingOf returns the numbering that converts the ids of a topic's messages to positions.
func numberingOf(ctx context.Context, g *globals, topic string) (*seq.Numbering, error) {
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return nil, err
	}
	first, err := seq.ParseID([]byte(t.FirstID))
	if err != nil {
		return nil, fmt.Errorf("first_id of %s is %q: %w", topic, t.FirstID, err)
	}
	return new(seq.NumberingFrom(first)), nil
}

// take calls show for n messages (0: all), finishes them, and disconnects.
func (s *subscription) take(n int, show func(*client.Message) error) error {
	left := n // below 1: unlimited
	var failed error
	for m := range s.consumer.Messages(s.ctx) {
		if failed = show(m); failed != nil {
			_ = m.Requeue(0) // on failure the message is redelivered anyway
			break
		}
		if left--; left >= 0 && left < tailReady {
			s.consumer.SetMaxInFlight(left) // before the FIN, otherwise one more message arrives
		}
		_ = m.Finish() // likewise
		if left == 0 {
			break
		}
	}
	if err := s.leave(); failed == nil {
		failed = err
	}
	return failed
}

// peekedOf converts a delivered message to a peeked one. Without a numbering, or for an unknown
// message, the partition is -1.
func peekedOf(m *client.Message, ids *seq.Numbering) api.Peeked {
	p := api.Peeked{
		Partition: -1,
		ID:        m.ID.String(),
		Timestamp: m.Timestamp.UTC(),
		Attempts:  uint16(m.Attempts), //nolint:gosec // as the protocol has it
		State:     api.PeekInFlight,
		Headers:   json.RawMessage("{}"),
		Body:      m.Body,
	}
	if id, err := seq.ParseID([]byte(p.ID)); err == nil && ids != nil {
		if place, ok := ids.Place(id); ok {
			p.Partition, p.Seq = place.Partition(), uint64(place.Offset())
		}
	}
	if utf8.Valid(m.Body) {
		p.Text = new(string)
		*p.Text = string(m.Body)
	}
	return p
}

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
