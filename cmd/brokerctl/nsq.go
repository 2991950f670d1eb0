package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/failure"
)

// leaveTimeout limits the time for closing the consumers.
const leaveTimeout = 2 * time.Second

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

// nsqTarget is a topic that is published to, or consumed, over the NSQ protocol.
type nsqTarget struct {
	g     *globals
	topic string
	found *api.Topic // as it was before the first connection
	given []string   // with --tcp; none: the nodes that the cluster names
	warn  io.Writer  // what is done about connections that end; for several goroutines
}

// targetOf returns a topic, which exists, or is created if create is set.
func targetOf(cmd *cobra.Command, g *globals, topic string, given []string, create bool) (*nsqTarget, error) {
	found, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if create && api.CodeOf(err) == failure.NotFound {
		found, err = query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) {
			return g.client.CreateTopic(ctx, api.CreateTopic{Name: topic})
		})
	}
	return &nsqTarget{g, topic, found, given, &sharedOutput{w: cmd.ErrOrStderr()}}, err
}

func (t *nsqTarget) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.warn, format+"\n", args...) // an error of stderr cannot be reported
}

// places returns the addresses for a client: the given NSQ addresses, or else the HTTP addresses
// of all nodes, which return the leaders.
func (t *nsqTarget) places(ctx context.Context) ([]string, error) {
	for _, a := range t.given {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, usageError("%q is not HOST:PORT", a)
		}
	}
	if len(t.given) > 0 {
		return t.given, nil
	}
	cluster, err := query(ctx, t.g, t.g.client.Cluster)
	if err != nil {
		return nil, err
	}
	at := t.g.nodeAddresses()
	if len(at) == 0 {
		at = []string{api.DefaultAddress}
	}
	for i, a := range at {
		if !strings.Contains(a, "://") {
			at[i] = "http://" + a
		}
	}
	for _, n := range cluster.Nodes {
		t.g.client.Know(n.HTTPAddress)
		if url := n.URL(t.g.secure()); url != "" {
			at = append(at, url)
		}
	}
	return at, nil
}

// newClient creates a client that reports lost and restored connections, and notifies links of
// each connection that is opened or fails to open.
func (t *nsqTarget) newClient(at []string, links *linkState) (*client.Client, error) {
	overHTTP, err := t.g.access.HTTPClient()
	if err != nil {
		return nil, err
	}
	links.target = t
	options := []client.Option{
		client.WithClientID("brokerctl"), client.WithUserAgent(userAgent()), client.WithSecret(t.g.access.Secret(t.g.env.getenv)),
		client.WithPublishTimeout(t.g.timeout), client.WithDialTimeout(t.g.timeout),
		client.WithHooks(client.Hooks{Disconnected: links.disconnected, Connected: links.connected}),
	}
	if overHTTP != nil {
		options = append(options, client.WithHTTPClient(overHTTP))
	}
	c, err := client.New(at, options...)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return c, nil
}

// linkState is the state of the connections of a client.
type linkState struct {
	target *nsqTarget
	ended  func(ever bool, err error) // called when a connection is lost, or could not be opened (ever is false); optional
	first  func()                     // called when the first connection is open; optional

	mu   sync.Mutex // guards what follows
	up   map[string]int
	ever bool // a connection was open
	lost bool // it was lost
}

func (l *linkState) connected(address string) {
	l.mu.Lock()
	again, first := l.lost, !l.ever
	l.lost, l.ever = false, true
	if l.up == nil {
		l.up = map[string]int{}
	}
	l.up[address]++
	l.mu.Unlock()
	if again {
		l.target.say("connected to %s", address)
	}
	if first && l.first != nil {
		l.first()
	}
}

func (l *linkState) disconnected(address string, err error) {
	if err == nil {
		return // closed by this client
	}
	l.mu.Lock()
	stood, ever := l.up[address] > 0, l.ever
	if stood {
		l.up[address]--
		l.lost = true
	}
	l.mu.Unlock()
	if stood {
		l.target.say("connection to %s lost (%v): looking up the leaders of %s", address, err, l.target.topic)
	}
	if l.ended != nil && (stood || !ever) {
		l.ended(ever, fmt.Errorf("no NSQ connection to %s: %w", address, err))
	}
}

// subscription consumes a channel with its own client.
type subscription struct {
	target   *nsqTarget
	channel  string
	client   *client.Client
	consumer *client.Consumer
	ctx      context.Context // ends with the command, or when consuming is no longer possible
	end      context.CancelFunc

	mu       sync.Mutex // guards what follows
	failures int        // before the first connection was open
	why      error      // why consuming is no longer possible; nil: it is
}

// subscribe subscribes to a channel, and returns once a node has accepted it.
func (t *nsqTarget) subscribe(ctx context.Context, channel string, options ...client.ConsumerOption) (*subscription, error) {
	at, err := t.places(ctx)
	if err != nil {
		return nil, err
	}
	s := &subscription{target: t, channel: channel}
	s.ctx, s.end = context.WithCancel(ctx)
	joined := make(chan struct{})
	if s.client, err = t.newClient(at, &linkState{first: func() { close(joined) }, ended: s.ended}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.consumer, err = s.client.Subscribe(t.topic, channel, options...)
	s.mu.Unlock()
	if err != nil {
		return nil, usageError("%w", err)
	}
	select {
	case <-joined:
		return s, nil
	case <-s.ctx.Done():
	}
	return nil, cmp.Or(s.leave(), context.Cause(ctx))
}

// ended checks a connection that was lost or failed to open, before another one is tried.
func (s *subscription) ended(ever bool, err error) {
	gone := ever && s.deleted()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	_, said := errors.AsType[*client.ServerError](err)
	switch {
	case gone:
		s.why = api.Errorf(failure.NotFound, "channel %s/%s was deleted", s.target.topic, s.channel)
		s.end()
		_ = s.consumer.Close(s.ctx) // at once: another subscription would create it again
	case ever || s.failures < len(s.target.given):
		return
	case said:
		s.why = err
	default:
		s.why = api.Errorf(failure.Unavailable, "%w", err)
	}
	s.end()
}

// deleted reports whether the channel was deleted. An ephemeral channel may be deleted with its
// last consumer.
func (s *subscription) deleted() bool {
	if strings.HasSuffix(s.channel, "#ephemeral") {
		return false
	}
	_, err := query(s.ctx, s.target.g, func(ctx context.Context) (*api.Channel, error) {
		return s.target.g.client.Channel(ctx, s.target.topic, s.channel)
	})
	return api.CodeOf(err) == failure.NotFound
}

// leave disconnects once the brokers have confirmed the finishes. It returns why consuming ended
// early, or nil.
func (s *subscription) leave() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaveTimeout)
	defer cancel()
	_ = s.client.Close(ctx) // unconfirmed messages are redelivered
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.why, s.consumer.Err())
}

// passing reports whether a failed request may succeed on another node, or soon.
func passing(err error) bool {
	return api.CodeOf(err).Retryable() || errors.Is(err, context.DeadlineExceeded)
}
