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
	key                    func(*Message) string // nil: messages do not wait for each other
	partition              Partition
	msgTimeout             time.Duration
	sampleRate             int
	autoTouch              bool
	headers                bool
	tag                    string
	minBackoff, maxBackoff time.Duration
	minRequeue, maxRequeue time.Duration
}

// ConsumerOption configures a Consumer.
type ConsumerOption func(*consumerConfig)

// WithMaxInFlight bounds the messages in flight over all connections. The timeout of messages
// that wait for the handler is already running: keep the number well below what is handled
// within the message timeout.
func WithMaxInFlight(n int) ConsumerOption { return func(c *consumerConfig) { c.maxInFlight = n } }

// WithConcurrency sets how many messages Run handles concurrently. It raises the maximum in
// flight to at least that number.
func WithConcurrency(n int) ConsumerOption { return func(c *consumerConfig) { c.concurrency = n } }

// WithKeyOrder has Run handle messages of one key one after another, in the order in which they
// arrived, and those of different keys concurrently, as many as WithConcurrency allows. key
// returns the key of a message, "" for one that waits for no other; it is called once for each
// message, before the handlers. (*Message).Key is such a function for consumers WithHeaders.
//
// A message that is requeued loses its place: the next one of its key is handled. Where each has
// to wait until the one before is finished, whatever happens and whoever handles it, the channel
// needs order by key (brokerctl channel create --order key), which any consumer then gets.
//
// The timeout of messages that wait for others of their key is running, unless WithAutoTouch
// touches them; one that has waited for longer is left to be redelivered.
func WithKeyOrder(key func(m *Message) string) ConsumerOption {
	return func(c *consumerConfig) { c.key = key }
}

// WithPartition consumes a single partition.
func WithPartition(p Partition) ConsumerOption { return func(c *consumerConfig) { c.partition = p } }

// WithMsgTimeout requests a message timeout other than the broker's default: unanswered
// messages are redelivered after it.
func WithMsgTimeout(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.msgTimeout = d }
}

// WithSampleRate delivers only this percentage of messages, 1 to 99.
func WithSampleRate(percent int) ConsumerOption {
	return func(c *consumerConfig) { c.sampleRate = percent }
}

// WithHeaders receives messages with their headers. The topic must be extended.
func WithHeaders() ConsumerOption { return func(c *consumerConfig) { c.headers = true } }

// WithTag receives the messages that were published with this tag (header
// ##client_dispatch_tag); consumers without a tag receive the others, and those for tags that no
// consumer has. The topic must be extended.
func WithTag(tag string) ConsumerOption { return func(c *consumerConfig) { c.tag = tag } }

// WithAutoTouch touches a message while its handler runs or it waits for another of its key, so that slow work needs no long
// message timeout. Brokers bound the total time (max-msg-timeout).
func WithAutoTouch() ConsumerOption { return func(c *consumerConfig) { c.autoTouch = true } }

// WithBackoff sets how long Run pauses after a handler failure: least after the first failure,
// doubled after each further one, up to most; then it handles one message at a time until as
// many have succeeded. 0, 0 disables backoff.
func WithBackoff(least, most time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.minBackoff, c.maxBackoff = least, most }
}

// WithRequeueDelay sets the requeue delay of messages whose handler failed: least after the
// first attempt, doubled after each further one, up to most. Brokers bound it
// (max-req-timeout).
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
		return nil, errors.New("client: the consumer would receive no messages: set MaxInFlight")
	case c.sampleRate < 0 || c.sampleRate > 99:
		return nil, fmt.Errorf("client: sample rate of %d is not between 0 and 99", c.sampleRate)
	case c.msgTimeout < 0 || c.minBackoff < 0 || c.maxBackoff < c.minBackoff || c.minRequeue < 0 || c.maxRequeue < c.minRequeue:
		return nil, errors.New("client: negative duration, or maximum below minimum")
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

// Later is returned by a handler to have its message redelivered after a delay without counting
// as a failure: the consumer does not back off.
func Later(delay time.Duration) error { return &later{delay} }
