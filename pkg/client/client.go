package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Client publishes to a broker and creates consumers. Its methods are safe for concurrent use.
type Client struct {
	cfg     *config
	budget  budget
	pool    callPool
	router  *router
	retries *retries
	dedup   dedupSource

	ctx  context.Context // ends when the client is closed
	stop context.CancelCauseFunc

	mu        sync.Mutex // guards the fields below
	closed    bool
	calls     int           // in progress
	idle      chan struct{} // closed once closed and no call is in progress
	consumers map[*Consumer]struct{}
	work      sync.WaitGroup // all goroutines
}

// New returns a client of a broker. An address is the host:port of a node, or the base URL of a
// lookup such as "http://127.0.0.1:4161" (nsqlookupd's or any brokerd node's); several of both
// are allowed. New does not connect: the first publish and each consumer do.
func New(addresses []string, options ...Option) (*Client, error) {
	cfg, err := configure(addresses, options)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, budget: budget{max: cfg.maxInFlight}, idle: make(chan struct{}), consumers: map[*Consumer]struct{}{}}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.router = newRouter(c)
	c.retries = &retries{client: c, wake: make(chan struct{}, 1)}
	if cfg.dedup {
		var count atomic.Uint64
		c.dedup = dedupSource{cfg.producer, func(n int) uint64 { return count.Add(uint64(n)) - uint64(n) }}
	}
	c.start(func() { c.router.run(c.ctx) })
	return c, nil
}

// start runs f on a goroutine that Close waits for. It returns false if the client is closed.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// Publish publishes one message and waits until it is as durable as the topic's sync policy
// promises. ErrRefused and ErrUncertain tell whether it may be stored; temporary refusals are
// retried until WithPublishTimeout. If ctx ends while the message is in progress, its outcome
// is uncertain.
func (c *Client) Publish(ctx context.Context, topic string, body []byte) error {
	k := c.pool.get()
	k.out.Topic, k.out.Body = topic, body
	return c.wait(ctx, k)
}

// PublishBatch publishes messages to one partition, all or none, like Publish.
func (c *Client) PublishBatch(ctx context.Context, topic string, bodies [][]byte) error {
	if len(bodies) == 0 {
		return nil
	}
	k := c.pool.get()
	k.out.Topic, k.out.Bodies = topic, bodies
	return c.wait(ctx, k)
}

// Send publishes one message with its options, like Publish.
func (c *Client) Send(ctx context.Context, o Outgoing) error {
	k := c.pool.get()
	k.out = o
	return c.wait(ctx, k)
}

// PublishAsync starts publishing one message. It waits only while more than
// WithMaxInFlightBytes are in progress, until ctx ends. If it returns nil, done is called once
// with the outcome, as of Publish, on a goroutine of the client: done must not block, and body
// must not change before. If it returns an error, nothing was published and done is not called.
// Over each connection, messages are sent in call order.
func (c *Client) PublishAsync(ctx context.Context, topic string, body []byte, done func(error)) error {
	k := c.pool.get()
	k.out.Topic, k.out.Body, k.done = topic, body, done
	return c.begin(ctx, k)
}

// SendAsync starts publishing one message with its options, like PublishAsync.
func (c *Client) SendAsync(ctx context.Context, o Outgoing, done func(error)) error {
	k := c.pool.get()
	k.out, k.done = o, done
	return c.begin(ctx, k)
}

// wait starts a call and waits for its outcome.
func (c *Client) wait(ctx context.Context, k *call) error {
	if err := c.begin(ctx, k); err != nil {
		return err
	}
	select {
	case err := <-k.outcome:
		c.pool.put(k)
		return err
	case <-ctx.Done():
	}
	failure := &PublishError{Topic: k.out.Topic, Messages: k.messages(), Err: context.Cause(ctx)}
	if failure.Fate = k.abandon(); failure.Fate != nil {
		return failure // k is no longer ours
	}
	err := <-k.outcome
	c.pool.put(k)
	return err
}

// begin checks a call, reserves its bytes and sends it.
func (c *Client) begin(ctx context.Context, k *call) error {
	if err := c.check(k); err != nil {
		return c.refuse(k, err)
	}
	if ctx.Err() != nil {
		return c.refuse(k, context.Cause(ctx))
	}
	c.dedup.assign(k)
	k.bytes = k.size()
	if k.bytes > c.budget.max {
		return c.refuse(k, fmt.Errorf("%w: %d bytes of %d", errTooLarge, k.bytes, c.budget.max))
	}
	if err := c.enter(); err != nil {
		return c.refuse(k, err)
	}
	if !c.budget.tryTake(k.bytes) {
		if err := c.budget.reserve(ctx, c.ctx.Done(), k.bytes); err != nil {
			c.leave()
			return c.refuse(k, err)
		}
	}
	if c.cfg.hooks.Published != nil {
		k.started = time.Now()
	}
	if cn := c.router.live(k.out.Topic); cn != nil && cn.publish(k) {
		return nil
	}
	c.retries.add(k)
	return nil
}

// check refuses a call that every broker would refuse, or that would break the shared connection.
func (c *Client) check(k *call) error {
	switch {
	case !validName(k.out.Topic):
		return fmt.Errorf("topic name %q is not valid", k.out.Topic)
	case len(k.out.Bodies) == 0 && len(k.out.Body) == 0:
		return errEmpty
	case len(k.out.Bodies) > 0 && (len(k.out.Body) > 0 || k.out.Delay > 0):
		return errBatch
	case k.out.Delay < 0:
		return fmt.Errorf("invalid delay %v", k.out.Delay)
	}
	if err := checkHeader(&k.out); err != nil {
		return err
	}
	for _, b := range k.out.Bodies {
		if len(b) == 0 {
			return errEmpty
		}
	}
	return nil
}

// refuse ends a call that was not started.
func (c *Client) refuse(k *call, err error) error {
	failure := k.fail(err, true)
	c.pool.put(k)
	return failure
}

// attempt sends a call over any available connection.
func (c *Client) attempt(k *call) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.dialTimeout)
	defer cancel()
	cn, err := c.router.connect(ctx, k.out.Topic)
	if err == nil {
		if cn.publish(k) {
			return
		}
		err = errUnsent // or the call was abandoned
	}
	c.ended(k, err)
}

// ended implements owner: an attempt has ended.
func (c *Client) ended(k *call, err error) {
	if err == nil {
		c.finish(k, nil)
		return
	}
	v := judge(err)
	k.tainted = k.tainted || !v.refused
	if !k.tainted {
		k.state.CompareAndSwap(callOnWire, callHeld)
	}
	if k.state.Load() != callAbandoned && v.again && (v.refused || k.deduplicated()) && c.retries.schedule(k, err, time.Now()) {
		c.router.hint(k.out.Topic)
		if c.cfg.hooks.Retried != nil {
			c.cfg.hooks.Retried(k.out.Topic, err)
		}
		c.retries.add(k)
		return
	}
	c.finish(k, k.fail(err, v.refused))
}

// finish ends a call: it releases its bytes and notifies the caller.
func (c *Client) finish(k *call, err error) {
	c.budget.give(k.bytes)
	if c.cfg.hooks.Published != nil && !k.started.IsZero() {
		c.cfg.hooks.Published(k.out.Topic, k.messages(), time.Since(k.started), err)
	}
	switch {
	case k.done != nil:
		done := k.done
		c.pool.put(k)
		done(err)
	case k.end():
		k.outcome <- err
	default:
		c.pool.put(k) // it was abandoned
	}
	c.leave()
}

// enter counts a call. It fails if the client is closed.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls++
	return nil
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if c.closed && c.calls == 0 {
		close(c.idle)
	}
}

// received implements owner: connections for publishes have no subscription.
func (c *Client) received(cn *conn, _ *Message) {
	cn.end(fmt.Errorf("%w: message without a subscription", ErrProtocol))
}

// complained implements owner.
func (c *Client) complained(cn *conn, err error) {
	c.cfg.log.Warn("broker reported a message error on a connection that has no subscription; it is ignored", "address", cn.address, "error", err)
}

func (c *Client) connected(address string) {
	c.cfg.log.Info("connected", "address", address)
	if c.cfg.hooks.Connected != nil {
		c.cfg.hooks.Connected(address)
	}
}

func (c *Client) disconnected(address string, err error) {
	if c.ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		c.cfg.log.Warn("disconnected", "address", address, "error", err)
	}
	if c.cfg.hooks.Disconnected != nil {
		c.cfg.hooks.Disconnected(address, err)
	}
}

// Close refuses further publishes, closes the consumers like Consumer.Close, waits for
// publishes in progress, and closes the connections. If ctx ends first, remaining publishes end
// with ErrUncertain and Close returns the cause. Further calls do the same with nothing left to
// do.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		if c.calls == 0 {
			close(c.idle)
		}
	}
	var consumers []*Consumer
	for x := range c.consumers {
		consumers = append(consumers, x)
	}
	c.mu.Unlock()
	var err error
	for _, x := range consumers {
		if e := x.Close(ctx); e != nil && err == nil {
			err = e
		}
	}
	select {
	case <-c.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	c.stop(ErrClosed)
	c.mu.Unlock()
	c.router.close()
	c.work.Wait()
	return err
}
