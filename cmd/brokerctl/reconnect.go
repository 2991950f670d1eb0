package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/nsqclient"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// redialPause lies between two attempts to replace a connection that ended.
const redialPause = 300 * time.Millisecond

// finder knows the NSQ addresses at which a topic is served now.
type finder struct {
	g     *globals
	topic string
	given []string  // with --tcp; none: what the topic's leaders advertise
	warn  io.Writer // what is done about connections that end
}

// addresses returns the addresses, asking any node that is known.
func (f *finder) addresses(ctx context.Context) ([]string, error) {
	return consumeFrom(ctx, f.g, f.given, f.topic)
}

func (f *finder) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.warn, format+"\n", args...) // nobody is left to tell
}

// redial replaces the connection to an address that ended. It asks repeatedly who
// leads, until one of those nodes takes the connection, the topic is gone, or the
// context ends. The other addresses are tried first.
func (f *finder) redial(ctx context.Context, lost string, why error, open func(context.Context, string) (*nsqclient.Conn, error)) (*nsqclient.Conn, string, error) {
	f.say("connection to %s lost (%v): looking up the leaders of %s", lost, why, f.topic)
	for {
		addresses, err := f.addresses(ctx)
		if api.CodeOf(err) == api.CodeNotFound {
			return nil, "", err
		}
		slices.SortStableFunc(addresses, func(a, b string) int { return boolInt(a == lost) - boolInt(b == lost) })
		for _, address := range addresses {
			one, cancel := context.WithTimeout(ctx, f.g.timeout)
			c, err := open(one, address)
			cancel()
			if err == nil {
				f.say("connected to %s", address)
				return c, address, nil
			}
		}
		if pause(ctx, redialPause); ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// subscribers consume a channel on several connections. One that ends is replaced.
type subscribers struct {
	finder
	channel string
	options nsqclient.Options
	ready   func(*nsqclient.Conn) int

	mu      sync.Mutex // guards what follows
	conns   []*nsqclient.Conn
	at      []string // where each is connected to
	leaving bool
}

// open connects and subscribes n times, round the addresses, or as often as there are
// addresses if that is more. All connections are made, or none.
func (s *subscribers) open(ctx context.Context, n int) error {
	addresses, err := s.addresses(ctx)
	if err != nil {
		return err
	}
	for i := range max(n, len(addresses)) {
		address := addresses[i%len(addresses)]
		one, cancel := context.WithTimeout(ctx, s.g.timeout)
		c, err := s.join(one, address)
		cancel()
		if err != nil {
			closeAll(s.conns)
			return err
		}
		s.conns, s.at = append(s.conns, c), append(s.at, address)
	}
	return nil
}

// join makes one connection.
func (s *subscribers) join(ctx context.Context, address string) (*nsqclient.Conn, error) {
	c, err := dial(ctx, address, s.options)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(ctx, s.topic, s.channel, nsqclient.AnyPartition); err != nil {
		_ = c.Close() // it is of no more use
		return nil, err
	}
	c.Ready(s.ready(c))
	return c, nil
}

// run consumes on the connection of a number, and on those that replace it, until
// leave is called, the context ends, or nothing can be consumed any more.
func (s *subscribers) run(ctx context.Context, i int, take func(*nsqclient.Conn, nsqclient.Message)) error {
	for {
		s.mu.Lock()
		c, address := s.conns[i], s.at[i]
		s.mu.Unlock()
		err := c.Run(ctx, func(m nsqclient.Message) { take(c, m) })
		if err == nil || s.left() || ctx.Err() != nil {
			return err
		}
		if s.deleted(ctx) {
			return api.Errorf(api.CodeNotFound, "channel %s/%s was deleted", s.topic, s.channel)
		}
		next, where, err := s.redial(ctx, address, err, s.join)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.conns[i], s.at[i] = next, where
		leaving := s.leaving
		s.mu.Unlock()
		if leaving {
			next.Stop()
		}
	}
}

// deleted reports whether the channel has gone: subscribing again would recreates it. One
// that goes with its last consumer may.
func (s *subscribers) deleted(ctx context.Context) bool {
	if strings.HasSuffix(s.channel, "#ephemeral") {
		return false
	}
	_, err := query(ctx, s.g, func(ctx context.Context) (*api.Channel, error) { return s.g.client.Channel(ctx, s.topic, s.channel) })
	return api.CodeOf(err) == api.CodeNotFound
}

// left reports whether leave was called.
func (s *subscribers) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving
}

// leave tells the brokers that we go: what was finished before reaches them.
func (s *subscribers) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for _, c := range s.conns {
		c.Stop()
	}
}

// count returns how many connections there are.
func (s *subscribers) count() int { return len(s.conns) }

// dial makes one connection.
func dial(ctx context.Context, address string, o nsqclient.Options) (*nsqclient.Conn, error) {
	c, err := nsqclient.Dial(ctx, address, o)
	if err == nil {
		return c, nil
	}
	if _, _, bad := net.SplitHostPort(address); bad != nil {
		return nil, usageError("%q is not HOST:PORT", address)
	}
	return nil, api.Errorf(api.CodeUnavailable, "no NSQ connection to %s: %w", address, err)
}

// passing reports whether a failed request may succeed at another node, or soon.
func passing(err error) bool {
	return api.CodeOf(err).Passes() || errors.Is(err, context.DeadlineExceeded)
}
