package web

import (
	"context"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Publisher is the part of a node used for publishing over HTTP. All methods are required.
type Publisher struct {
	Sender
	TopicEnsurer
}

// Sender stores messages.
type Sender interface {
	// Publish stores the messages and calls Done once. It has copied the
	// messages when it returns, whether Done was called or not.
	Publish(ctx context.Context, p publish.Request)
}

// TopicEnsurer creates topics on first use.
type TopicEnsurer interface {
	Topic(name string) (*meta.Topic, error)
	EnsureTopic(ctx context.Context, name string) error
}

// Publishing publishes messages received over HTTP.
type Publishing struct {
	Broker Publisher
	Bodies *Bodies
	Limits Limits
	// Turns limits how many requests perform long computations at a time. nil: no limit.
	Turns *limit.Turns
}

// Ensure creates a missing topic on first use. The name must be valid.
func (s *Publishing) Ensure(ctx context.Context, name string) error {
	if _, err := s.Broker.Topic(name); err == nil {
		return nil
	}
	return s.Broker.EnsureTopic(ctx, name)
}

// Publish passes messages to the broker and waits for the result, the end of the request, or the
// timeout. The messages may be reused when it returns.
func (s *Publishing) Publish(ctx context.Context, req publish.Request) (topic.Receipt, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limits.PublishTimeout, failure.OutcomeUnknown)
	defer cancel()
	done := make(chan topic.Receipt, 1)
	req.Done = func(receipt topic.Receipt) { done <- receipt }
	end := s.Turns.For(len(req.Messages)).AcquireFor(limit.PublishTurn)
	s.Broker.Publish(ctx, req)
	end()
	select {
	case receipt := <-done:
		return receipt, receipt.Err
	case <-ctx.Done():
		return topic.Receipt{}, context.Cause(ctx)
	}
}
