package web

import (
	"context"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Publisher is what publishing over HTTP asks of a node. All of it is required.
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

// TopicEnsurer makes topics that are used for the first time.
type TopicEnsurer interface {
	// Topic returns one topic, or an error that wraps failure.TopicNotFound.
	Topic(name string) (*meta.Topic, error)
	// EnsureTopic makes a topic of default configuration unless there is one.
	// Where topics are not made on first use it is failure.TopicNotFound.
	EnsureTopic(ctx context.Context, name string) error
}

// Publishing takes messages over HTTP.
type Publishing struct {
	Broker Publisher
	Bodies *Bodies
	Limits Limits
	// Turns bounds how many requests do at a time what takes a processor for long. nil:
	// there is no bound.
	Turns *limit.Turns
}

// Ensure makes a topic that there is not for someone who uses it. The name is valid.
func (s *Publishing) Ensure(ctx context.Context, name string) error {
	if _, err := s.Broker.Topic(name); err == nil {
		return nil
	}
	return s.Broker.EnsureTopic(ctx, name)
}

// Publish hands messages to the broker and waits for its receipt, or for the
// end of the request, or for the limit of waiting. The messages may be reused
// when it returns.
func (s *Publishing) Publish(ctx context.Context, req publish.Request) (topic.Receipt, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limits.PublishTimeout, failure.OutcomeUnknown)
	defer cancel()
	done := make(chan topic.Receipt, 1)
	req.Done = func(receipt topic.Receipt) { done <- receipt }
	end := s.Turns.For(len(req.Messages)).Lend(limit.PublishTurn)
	s.Broker.Publish(ctx, req)
	end()
	select {
	case receipt := <-done:
		return receipt, receipt.Err
	case <-ctx.Done():
		return topic.Receipt{}, context.Cause(ctx)
	}
}
