package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/nsqlink"
	"github.com/brokerd/brokerd/internal/topiclog"
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
	follow  bool
}

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

func newMessageTailCommand(g *globals) *cobra.Command {
	var o tailOptions
	cmd := acting(g, &cobra.Command{
		Use:   "tail TOPIC[/CHANNEL]",
		Short: "Print messages as they arrive",
		Long: `Print messages as they arrive, until interrupted or until N were printed.

For a TOPIC, the log itself is read: nothing is consumed. It starts after the newest message. With -n
it prints the last N messages, or fewer if the topic has fewer, and ends; with -n and --follow, it
waits until N were printed. With -n and --from, --filter or --tag, it also waits until N were printed.

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
	f := cmd.Flags()
	f.IntVarP(&o.n, "n", "n", 0, "stop after `N` messages; 0 means no limit")
	f.StringVar(&o.from, "from", "", "for a topic, `POSITION` to start at: start, end or a sequence number")
	f.BoolVarP(&o.follow, "follow", "f", false, "for a topic, with -n: wait for more messages if the topic has fewer")
	f.StringArrayVar(&o.tcp, "tcp", nil, "consume from this `HOST:PORT` (default: advertised by the topic's leaders)")
	filterVar(f, &o.filter, "messages of a topic")
	f.StringVar(&o.tag, "tag", "", "only messages with this `TAG`")
	durationVar(f, &o.timeout, "msg-timeout", "redeliver a message not printed within this time (default: the broker's message timeout)")
	return cmd
}

func (o *tailOptions) validate(channel string) error {
	switch {
	case o.n < 0:
		return usageError("-n must not be below 0")
	case channel != "" && o.filter != "":
		return usageError("--filter applies to topics only; a channel has its own: brokerctl channel create --filter")
	case o.tag != "" && !header.ValidTag(o.tag):
		return usageError("--tag is %q, must be up to %d letters, digits, _ and -", o.tag, header.MaxTag)
	case channel != "" && o.follow:
		return usageError("--follow applies to topics only; a channel waits until N messages were printed")
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

// overNSQ returns a topic to publish to or to consume over the NSQ protocol, at the given addresses
// or where the cluster names its nodes. With create, a missing topic is created.
func overNSQ(cmd *cobra.Command, g *globals, topic string, given []string, create bool) (*nsqlink.Topic, error) {
	overHTTP, err := g.access.HTTPClient()
	if err != nil {
		return nil, err
	}
	return nsqlink.Find(cmd.Context(), topic, create, nsqlink.Options{
		API: g.client, Nodes: g.nodeAddresses(), Secure: g.secure(), NSQ: given, HTTP: overHTTP, Secret: g.access.Secret(g.env.getenv),
		UserAgent: userAgent(), Timeout: g.timeout, Warn: &sharedOutput{w: cmd.ErrOrStderr()},
	})
}

// sharedOutput is a writer for several goroutines.
type sharedOutput struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

// Write implements io.Writer.
func (t *sharedOutput) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

// log returns the log of a topic.
func (g *globals) log(topic string) *topiclog.Log {
	return &topiclog.Log{Client: g.client, Topic: topic, Timeout: g.timeout}
}

func tailChannel(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	ctx := cmd.Context()
	found, err := overNSQ(cmd, g, topic, o.tcp, false)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(found.Found.Channels, func(c api.ChannelSummary) bool { return c.Name == channel })
	if !known && !g.quiet && !strings.HasSuffix(channel, "#ephemeral") {
		found.Say("channel %s/%s does not exist: it is created now, and keeps messages until it is deleted", topic, channel)
	}
	ready := tailReady
	if o.n > 0 {
		ready = min(ready, o.n)
	}
	s, err := found.Subscribe(ctx, channel, client.WithMaxInFlight(ready), client.WithMsgTimeout(o.timeout), client.WithTag(o.tag))
	if err != nil {
		return err
	}
	ids, err := numberingOf(ctx, g, topic)
	if err != nil {
		found.Say("cannot show message positions: %v", err)
	}
	page := g.page(cmd)
	return take(s, o.n, func(m *client.Message) error { return g.writeMessage(page, peekedOf(m, ids)) })
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
func take(s *nsqlink.Subscription, n int, show func(*client.Message) error) error {
	left := n // below 1: unlimited
	var failed error
	for m := range s.Messages() {
		if failed = show(m); failed != nil {
			_ = m.Requeue(0) // on failure the message is redelivered anyway
			break
		}
		if left--; left >= 0 && left < tailReady {
			s.SetMaxInFlight(left) // before the FIN, otherwise one more message arrives
		}
		_ = m.Finish() // likewise
		if left == 0 {
			break
		}
	}
	if err := s.Leave(); failed == nil {
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

func parseTailFrom(text string) (topiclog.From, error) {
	switch edge := api.SeekEdge(text); edge {
	case "", api.SeekStart, api.SeekEnd:
		return topiclog.From{Edge: edge}, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return topiclog.From{}, usageError("--from %q is not a valid position: use start, end or a sequence number", text)
	}
	return topiclog.From{Edge: topiclog.AtOffset, Offset: n}, nil
}

func tailTopic(cmd *cobra.Command, g *globals, o tailOptions, topic string) error {
	from, err := parseTailFrom(o.from)
	if err != nil {
		return err
	}
	page := g.page(cmd)
	tail := topiclog.TailOptions{From: from, Max: o.n, Filter: o.chosen(), Follow: o.follow, Warn: cmd.ErrOrStderr()}
	return g.log(topic).Tail(cmd.Context(), tail, func(m api.Peeked) error { return g.writeMessage(page, m) })
}
