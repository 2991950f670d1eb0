package nsqlink

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Subscription consumes a channel with its own client.
type Subscription struct {
	topic    *Topic
	channel  string
	client   *client.Client
	consumer *client.Consumer
	ctx      context.Context // ends with the command, or when consuming is no longer possible
	end      context.CancelFunc

	mu       sync.Mutex // guards what follows
	failures int        // before the first connection was open
	why      error      // why consuming is no longer possible; nil: it is
}

// Subscribe subscribes to a channel, and returns once a node has accepted it.
func (t *Topic) Subscribe(ctx context.Context, channel string, options ...client.ConsumerOption) (*Subscription, error) {
	at, err := t.places(ctx)
	if err != nil {
		return nil, err
	}
	s := &Subscription{topic: t, channel: channel}
	s.ctx, s.end = context.WithCancel(ctx)
	joined := make(chan struct{})
	if s.client, err = t.newClient(at, &linkState{first: func() { close(joined) }, ended: s.ended}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.consumer, err = s.client.Subscribe(t.Name, channel, options...)
	s.mu.Unlock()
	if err != nil {
		return nil, api.Errorf(failure.Usage, "%w", err)
	}
	select {
	case <-joined:
		return s, nil
	case <-s.ctx.Done():
	}
	return nil, cmp.Or(s.Leave(), context.Cause(ctx))
}

// Messages returns the messages, until consuming is no longer possible.
func (s *Subscription) Messages() iter.Seq[*client.Message] { return s.consumer.Messages(s.ctx) }

// SetMaxInFlight changes how many messages may be unanswered.
func (s *Subscription) SetMaxInFlight(n int) { s.consumer.SetMaxInFlight(n) }

// ended checks a connection that was lost or failed to open, before another one is tried.
func (s *Subscription) ended(ever bool, err error) {
	gone := ever && s.deleted()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	_, said := errors.AsType[*client.ServerError](err)
	switch {
	case gone:
		s.why = api.Errorf(failure.NotFound, "channel %s/%s was deleted", s.topic.Name, s.channel)
		s.end()
		_ = s.consumer.Close(s.ctx) // at once: another subscription would create it again
	case ever || s.failures < len(s.topic.o.NSQ):
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
func (s *Subscription) deleted() bool {
	if strings.HasSuffix(s.channel, "#ephemeral") {
		return false
	}
	o := &s.topic.o
	_, err := query(s.ctx, o.Timeout, func(ctx context.Context) (*api.Channel, error) {
		return o.API.Channel(ctx, s.topic.Name, s.channel)
	})
	return api.CodeOf(err) == failure.NotFound
}

// Leave disconnects once the brokers have confirmed the finishes. It returns why consuming ended
// early, or nil.
func (s *Subscription) Leave() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), closeTimeout)
	defer cancel()
	_ = s.client.Close(ctx) // unconfirmed messages are redelivered
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.why, s.consumer.Err())
}
