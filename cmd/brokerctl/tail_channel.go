package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/nsqclient"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/seq"
)

const (
	// tailReady is how many messages may wait to be printed.
	tailReady = 64
	// leaveTimeout bounds how long the brokers may take to see us off.
	leaveTimeout = 2 * time.Second
)

// leaderAddresses returns the NSQ addresses of the nodes that lead partitions
// of a topic.
func leaderAddresses(ctx context.Context, g *globals, topic string) ([]string, error) {
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return nil, err
	}
	c, err := query(ctx, g, g.client.Cluster)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, n := range c.Nodes {
		g.client.Know(n.HTTPAddress)
		if slices.ContainsFunc(t.Partitions, func(q api.Partition) bool { return q.Leader == n.ID }) {
			addresses = append(addresses, n.TCPAddress)
		}
	}
	if len(addresses) == 0 {
		return nil, api.Errorf(api.CodeNotWritable, "no partition of %q has a leader", topic)
	}
	return addresses, nil
}

// consumeFrom returns the NSQ addresses that were given, or else those of the
// topic's leaders.
func consumeFrom(ctx context.Context, g *globals, given []string, topic string) ([]string, error) {
	if len(given) > 0 {
		return given, nil
	}
	return leaderAddresses(ctx, g, topic)
}

// clientOptions says who we are to a broker, and what proves it where AUTH is
// required.
func clientOptions(g *globals) nsqclient.Options {
	host, _ := os.Hostname() // shown in stats only
	return nsqclient.Options{ClientID: "brokerctl", Hostname: host, UserAgent: userAgent(), Secret: g.access.Secret(g.env.getenv)}
}

func closeAll(conns []*nsqclient.Conn) {
	for _, c := range conns {
		_ = c.Close() // it is of no more use
	}
}

// arrival is a message and the connection that it came on.
type arrival struct {
	conn    *nsqclient.Conn
	message nsqclient.Message
}

func tailChannel(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	ctx := cmd.Context()
	options := clientOptions(g)
	options.MsgTimeout = o.timeout
	ready := tailReady
	if o.n > 0 {
		ready = min(ready, o.n)
	}
	s := &subscribers{
		finder: finder{g, topic, o.tcp, cmd.ErrOrStderr()}, channel: channel, options: options,
		ready: func(*nsqclient.Conn) int { return ready },
	}
	if err := s.open(ctx, 1); err != nil {
		return err
	}
	ids, err := numberingOf(ctx, g, topic)
	if err != nil {
		s.say("cannot show message positions: %v", err)
	}
	page := g.page(cmd)
	return consume(ctx, s, o.n, func(m nsqclient.Message) error { return g.writeMessage(page, peekedOf(m, ids)) })
}

// numberingOf returns what tells the places of a topic's messages from their ids.
func numberingOf(ctx context.Context, g *globals, topic string) (*seq.Numbering, error) {
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return nil, err
	}
	first, err := seq.ParseID([]byte(t.FirstID))
	if err != nil {
		return nil, fmt.Errorf("first_id of %s is %q: %w", topic, t.FirstID, err)
	}
	ids := seq.NumberingFrom(first)
	return &ids, nil
}

// consume calls show for n messages, 0: for all, and finishes those that were
// shown; it leaves when the context ends. What came on top is given back.
func consume(ctx context.Context, s *subscribers, n int, show func(nsqclient.Message) error) error {
	arrivals := make(chan arrival)
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // we leave in good order, not at once
	defer stop()
	group, running := errgroup.WithContext(running)
	for i := range s.count() {
		group.Go(func() error {
			return s.run(running, i, func(c *nsqclient.Conn, m nsqclient.Message) {
				m.Body = bytes.Clone(m.Body)
				select {
				case arrivals <- arrival{c, m}:
				case <-running.Done():
				}
			})
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()

	t := tally{from: s, left: n, show: show}
	leave := ctx.Done()
	for {
		select {
		case a := <-arrivals:
			if t.receive(a); t.leaving && leave != nil {
				leave = nil
				time.AfterFunc(leaveTimeout, stop)
			}
		case <-leave:
			leave = nil
			t.leave()
			time.AfterFunc(leaveTimeout, stop)
		case err := <-ended:
			if t.err != nil || t.leaving {
				return t.err
			}
			return err
		}
	}
}

// tally counts down the messages that are wanted.
type tally struct {
	from    *subscribers
	left    int // below 1 and not leaving: without end
	show    func(nsqclient.Message) error
	leaving bool
	err     error // of show
}

// receive shows a message and finishes it, or gives it back.
func (t *tally) receive(a arrival) {
	if t.leaving {
		a.conn.Requeue(a.message.ID, 0)
		return
	}
	if t.err = t.show(a.message); t.err != nil {
		a.conn.Requeue(a.message.ID, 0)
		t.leave()
		return
	}
	t.left--
	if t.left >= 0 && t.left < tailReady {
		a.conn.Ready(t.left) // before the FIN, or one too many comes
	}
	a.conn.Finish(a.message.ID)
	if t.left == 0 {
		t.leave()
	}
}

// leave tells the brokers that we go.
func (t *tally) leave() {
	t.leaving = true
	t.from.leave()
}

// peekedOf describes a delivered message as a peek would. Without a numbering, and of a
// message that it does not know, the partition is -1.
func peekedOf(m nsqclient.Message, ids *seq.Numbering) api.Peeked {
	p := api.Peeked{
		Partition: -1,
		ID:        m.ID.String(),
		Timestamp: m.Timestamp.UTC(),
		Attempts:  m.Attempts,
		State:     api.PeekInFlight,
		Headers:   json.RawMessage("{}"),
		Body:      m.Body,
	}
	if id, err := seq.ParseID(m.ID[:]); err == nil && ids != nil {
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
