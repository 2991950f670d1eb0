package client

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of the options of a consumer.
const (
	DefaultMaxInFlight = 64
	DefaultConcurrency = 1
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 2 * time.Minute
	DefaultMinRequeue  = time.Second
	DefaultMaxRequeue  = 15 * time.Minute
)

// consumerConfig is what a Consumer was made with.
type consumerConfig struct {
	maxInFlight            int
	concurrency            int
	partition              Partition
	msgTimeout             time.Duration
	sampleRate             int
	autoTouch              bool
	headers                bool
	minBackoff, maxBackoff time.Duration
	minRequeue, maxRequeue time.Duration
}

// ConsumerOption changes a Consumer from its defaults.
type ConsumerOption func(*consumerConfig)

// WithMaxInFlight bounds how many messages the broker may deliver here that are neither
// finished nor requeued, over all connections. Those that wait for the handler age already:
// keep it well below what is handled within the message timeout.
func WithMaxInFlight(n int) ConsumerOption { return func(c *consumerConfig) { c.maxInFlight = n } }

// WithConcurrency sets how many messages Run handles at the same time. It raises what may be
// in flight to at least as many.
func WithConcurrency(n int) ConsumerOption { return func(c *consumerConfig) { c.concurrency = n } }

// WithPartition consumes one partition alone.
func WithPartition(p Partition) ConsumerOption { return func(c *consumerConfig) { c.partition = p } }

// WithMsgTimeout asks for another message timeout than the broker's default: a message that
// is not answered for so long is delivered again.
func WithMsgTimeout(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.msgTimeout = d }
}

// WithSampleRate has only so many of a hundred messages delivered, from 1 to 99.
func WithSampleRate(percent int) ConsumerOption {
	return func(c *consumerConfig) { c.sampleRate = percent }
}

// WithHeaders has messages come with their headers. The topic must be extended.
func WithHeaders() ConsumerOption { return func(c *consumerConfig) { c.headers = true } }

// WithAutoTouch touches a message for as long as its handler runs, so that slow work needs
// no long message timeout. Brokers bound for how long that can go on (max-msg-timeout).
func WithAutoTouch() ConsumerOption { return func(c *consumerConfig) { c.autoTouch = true } }

// WithBackoff sets for how long Run takes nothing after its handler has failed: least after
// a failure, twice as long after each further one, up to most; then it takes one message at
// a time until as many have succeeded. 0, 0 switches that off.
func WithBackoff(least, most time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.minBackoff, c.maxBackoff = least, most }
}

// WithRequeueDelay sets the delay with which a message is requeued whose handler has failed:
// least after its first attempt, twice as long after each further one, up to most. Brokers
// bound it (max-req-timeout).
func WithRequeueDelay(least, most time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.minRequeue, c.maxRequeue = least, most }
}

func configureConsumer(options []ConsumerOption) (*consumerConfig, error) {
	c := &consumerConfig{
		maxInFlight: DefaultMaxInFlight, concurrency: DefaultConcurrency,
		minBackoff: DefaultMinBackoff, maxBackoff: DefaultMaxBackoff,
		minRequeue: DefaultMinRequeue, maxRequeue: DefaultMaxRequeue,
	}
	for _, o := range options {
		o(c)
	}
	c.maxInFlight = max(c.maxInFlight, c.concurrency)
	switch {
	case c.maxInFlight < 1 || c.concurrency < 1:
		return nil, errors.New("client: a consumer that takes no messages")
	case c.sampleRate < 0 || c.sampleRate > 99:
		return nil, fmt.Errorf("client: a sample rate of %d is not between 0 and 99", c.sampleRate)
	case c.msgTimeout < 0 || c.minBackoff < 0 || c.maxBackoff < c.minBackoff || c.minRequeue < 0 || c.maxRequeue < c.minRequeue:
		return nil, errors.New("client: a duration below 0, or most below least")
	}
	return c, nil
}

// requeueDelay returns the delay after so many attempts.
func (c *consumerConfig) requeueDelay(attempts int) time.Duration {
	d := c.minRequeue
	for range attempts - 1 {
		if d *= 2; d >= c.maxRequeue {
			return c.maxRequeue
		}
	}
	return d
}

// later is the error of Later.
type later struct{ delay time.Duration }

// Error says what it asks for.
func (l *later) Error() string { return fmt.Sprintf("handle the message again after %v", l.delay) }

// Later is what a handler returns to have its message delivered again after a delay, where
// nothing has failed: the consumer does not back off.
func Later(delay time.Duration) error { return &later{delay} }
