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

// consumerConfig holds the options of a Consumer.
type consumerConfig struct {
	maxInFlight            int
	concurrency            int
	key                    func(*Message) string // nil: messages are not ordered by key
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

// WithKeyOrder makes Run handle the messages of one key one after another, in the order of their
// arrival, and those of different keys concurrently, as many as WithConcurrency allows. key
// returns the key of a message, or "" for a message that waits for no other; it is called once for
// each message, before the handlers. (*Message).Key is such a function for consumers WithHeaders.
//
// A requeued message loses its turn: the next message of its key is handled. If a message must
// never be overtaken by its successors, whatever happens and whichever consumer handles them, use
// a channel with order by key (brokerctl channel create --order key), which works with any
// consumer.
//
// The timeout of messages that wait for others of their key is running, unless WithAutoTouch
// touches them. A message that has waited for longer is left for redelivery.
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

// WithAutoTouch touches a message while its handler runs or while it waits for another of its key,
// so that slow work needs no long message timeout. Brokers limit the total time (max-msg-timeout).
func WithAutoTouch() ConsumerOption { return func(c *consumerConfig) { c.autoTouch = true } }

// WithBackoff sets how long Run pauses after a handler failure: least after the first failure,
// doubled after each further one, up to most. After a pause, Run handles one message at a time
// until as many have succeeded as failed. 0, 0 disables backoff.
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

// requeueDelay returns the requeue delay after a number of attempts.
func (c *consumerConfig) requeueDelay(attempts int) time.Duration {
	d := c.minRequeue
	for range attempts - 1 {
		d = doubled(d, c.maxRequeue)
	}
	return d
}

// later is the error of Later.
type later struct{ delay time.Duration }

// Error describes the request.
func (l *later) Error() string { return fmt.Sprintf("handle the message again after %v", l.delay) }

// Later is returned by a handler to have its message redelivered after a delay without counting
// as a failure: the consumer does not back off.
func Later(delay time.Duration) error { return &later{delay} }
