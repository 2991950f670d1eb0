package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Handler handles a message. If it returns nil the message is finished; otherwise it is
// requeued with a delay and the consumer backs off. A panic counts as a failure. The handler
// may also finish or requeue the message itself. ctx ends with the context of Run.
type Handler func(ctx context.Context, m *Message) error

// Consumer consumes a channel from all nodes that serve it until it is closed. Use either Run
// or Messages, once. Its methods are safe for concurrent use.
type Consumer struct {
	client         *Client
	topic, channel string
	cfg            *consumerConfig
	arrivals       chan *Message
	ctx            context.Context // ends when the consumer is closed
	stop           context.CancelCauseFunc
	leaving        chan struct{} // closed when Close begins
	wake           chan struct{} // signals that the set of nodes may have changed
	work           sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	credit   credit     // shared by the connections
	attached map[string]bool
	throttle throttle
	most     int           // maximum messages in flight
	inHand   int           // messages delivered to the program and not answered
	empty    chan struct{} // closed once left is set and inHand is 0
	left     bool          // Close has begun
	err      error         // why a broker closed it
}

// Subscribe subscribes to a channel of a topic, both created if missing, and starts to receive
// messages. While the consumer is open, it connects in the background to the nodes named by
// lookup addresses and to each node address of the client.
func (c *Client) Subscribe(topic, channel string, options ...ConsumerOption) (*Consumer, error) {
	cfg, err := configureConsumer(options)
	switch {
	case err != nil:
		return nil, err
	case !validName(topic):
		return nil, fmt.Errorf("subscribe: topic name %q is not valid", topic)
	case !validName(channel):
		return nil, fmt.Errorf("subscribe: channel name %q is not valid", channel)
	}
	x := &Consumer{
		client: c, topic: topic, channel: channel, cfg: cfg,
		arrivals: make(chan *Message, 2*cfg.maxInFlight), leaving: make(chan struct{}), wake: make(chan struct{}, 1),
		credit: credit{tick: time.NewTimer(turnTime), turned: time.Now()}, attached: map[string]bool{}, empty: make(chan struct{}),
		throttle: throttle{least: cfg.minBackoff, most: cfg.maxBackoff}, most: cfg.maxInFlight,
	}
	x.ctx, x.stop = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("subscribe: %w", ErrClosed)
	}
	c.consumers[x] = struct{}{}
	c.work.Go(x.run)
	return x, nil
}

// run keeps connections to the nodes until the consumer is closed.
func (x *Consumer) run() {
	defer x.work.Wait()
	defer x.credit.tick.Stop()
	refresh := time.NewTimer(0)
	defer refresh.Stop()
	for failures := 0; ; {
		select {
		case <-x.ctx.Done():
			return
		case <-x.credit.tick.C:
			x.mu.Lock()
			now := time.Now()
			x.credit.turn(now)
			x.shareLocked(now)
			x.mu.Unlock()
			continue
		case <-x.wake:
		case <-refresh.C:
		}
		addresses, err := x.nodes()
		for _, address := range addresses {
			x.attach(address)
		}
		next := x.client.cfg.refresh - time.Duration(rand.Int64N(int64(x.client.cfg.refresh)/4+1))
		if failures++; err == nil && len(addresses) > 0 {
			failures = 0
		} else {
			next = min(next, pause(x.client.cfg, failures, rand.Float64()))
		}
		refresh.Reset(next)
	}
}

// nodes returns the nodes to connect to: after an error, only those that need no lookup.
func (x *Consumer) nodes() ([]string, error) {
	r := x.client.router
	all := slices.Clone(x.client.cfg.nodes)
	if r.lookup == nil {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.client.cfg.dialTimeout)
	defer cancel()
	found, err := r.lookup.producers(ctx, x.topic)
	if err == nil && len(found) == 0 && len(all) == 0 {
		found, err = r.lookup.nodes(ctx) // the topic does not exist: any node creates it
	}
	if err != nil && x.ctx.Err() == nil {
		x.client.cfg.log.Warn("lookup failed; the consumer keeps its current connections", "topic", x.topic, "error", err)
	}
	for _, a := range found {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, err
}

// attach starts a goroutine that keeps a connection to a node, unless there is one.
func (x *Consumer) attach(address string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attached[address] || x.left {
		return
	}
	x.attached[address] = true
	x.work.Go(func() { x.keep(address) })
}

// keep connects to a node until the consumer is closed, or until the lookups no longer name the node.
func (x *Consumer) keep(address string) {
	defer func() {
		x.mu.Lock()
		delete(x.attached, address)
		x.mu.Unlock()
		wake(x.wake) // other nodes may have replaced it
	}()
	for failures := 1; ; failures++ {
		began := time.Now()
		err := x.visit(address)
		if x.ctx.Err() != nil || closed(x.leaving) {
			return
		}
		x.client.disconnected(address, err)
		if final(err) {
			x.fail(err)
			return
		}
		if time.Since(began) >= x.client.cfg.maxReconnect {
			failures = 1
		}
		select {
		case <-time.After(pause(x.client.cfg, failures, rand.Float64())):
		case <-x.leaving:
			return
		case <-x.ctx.Done():
			return
		}
		if !slices.Contains(x.client.cfg.nodes, address) {
			if named, err := x.nodes(); err == nil && !slices.Contains(named, address) {
				return
			}
		}
		wake(x.wake) // other nodes may lead now
	}
}

// wake notifies the goroutine that waits for c, or that is about to wait.
func wake(c chan<- struct{}) { signal.Poke(c) }

// SetMaxInFlight changes the maximum of messages in flight, from 0, which pauses the consumer, to
// the value at creation (WithMaxInFlight). Messages already in flight are not affected. On a
// connection, the change takes effect before messages finished later: the broker does not replace
// them.
func (x *Consumer) SetMaxInFlight(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n = min(max(n, 0), x.cfg.maxInFlight)
	if n < x.most {
		x.credit.putLast((*source).busy) // sources that have delivered nothing come first
	}
	x.most = n
	x.shareLocked(time.Now())
}

// final reports whether the broker would give the same answer to another SUB.
func final(err error) bool {
	e, ok := errors.AsType[*ServerError](err)
	if !ok {
		return false
	}
	switch failure.WireNamed(e.Code) {
	case failure.BadTopic, failure.BadChannel, failure.Unauthorized, failure.AuthDisabled, failure.SubExtendForbidden:
		return true
	default:
		return false
	}
}

// fail closes the consumer because of a broker's answer.
func (x *Consumer) fail(err error) {
	x.mu.Lock()
	if x.err == nil {
		x.err = err
	}
	x.mu.Unlock()
	x.stop(err)
}

// visit is one connection to a node, from start to end.
func (x *Consumer) visit(address string) error {
	cn, err := open(x.ctx, x.client.cfg, address, wanted{x.cfg.msgTimeout, x.cfg.sampleRate, x.cfg.headers, x.cfg.tag}, x)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.client.cfg.dialTimeout)
	err = cn.subscribe(ctx, x.topic, x.channel, x.cfg.partition)
	cancel()
	if err != nil {
		cn.end(err)
		return err
	}
	stop := context.AfterFunc(x.ctx, func() { cn.end(ErrClosed) })
	defer stop()
	x.client.connected(address)
	x.join(cn)
	defer x.part(cn)
	return cn.run()
}

func (x *Consumer) join(cn *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credit.sources = append(x.credit.sources, &source{conn: cn, used: time.Now()})
	x.shareLocked(time.Now())
}

func (x *Consumer) part(cn *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credit.sources = slices.DeleteFunc(x.credit.sources, func(s *source) bool { return s.conn == cn })
	x.shareLocked(time.Now())
}

// shareLocked sets the number of messages that may be in flight on each connection.
func (x *Consumer) shareLocked(now time.Time) {
	all := x.most
	switch x.throttle.flow(now) {
	case flowOne:
		all = min(all, 1)
	case flowNone:
		all = 0
	case flowAll:
	}
	if x.left {
		all = 0
	}
	x.credit.share(all)
}

// received implements owner.
func (x *Consumer) received(cn *conn, m *Message) {
	if closed(x.leaving) {
		giveBack(m) // another consumer receives it
		return
	}
	m.answered = x.answeredOne
	if hook := x.client.cfg.hooks.Received; hook != nil {
		hook(x.topic, x.channel, m)
	}
	cn.got.Add(1)
	cn.held.Add(1)
	select {
	case x.arrivals <- m:
	default: // more than requested
		cn.held.Add(-1)
		giveBack(m)
	}
}

// ended implements owner: consumers do not publish.
func (x *Consumer) ended(*call, error) {}

// complained implements owner.
func (x *Consumer) complained(cn *conn, err error) {
	x.client.cfg.log.Info("message answered after its timeout; it will be redelivered", "address", cn.address, "topic", x.topic, "channel", x.channel, "error", err)
}

// giveBack requeues a message that was not delivered to the program.
func giveBack(m *Message) { m.conn.queue(command{name: cmdREQ, id: m.ID}) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// next waits for the next message whose connection is still open. It returns nil if there are no
// more messages.
func (x *Consumer) next(ctx context.Context) *Message {
	for ctx.Err() == nil && x.ctx.Err() == nil && !closed(x.leaving) { // select would choose any
		select {
		case m := <-x.arrivals:
			if !x.hand(m) {
				continue
			}
			return m
		case <-ctx.Done():
			return nil
		case <-x.leaving:
			return nil
		case <-x.ctx.Done():
			return nil
		}
	}
	return nil
}

// hand counts a message as delivered to the program. It returns false if the message must not be
// delivered.
func (x *Consumer) hand(m *Message) bool {
	if !m.conn.alive() {
		return false // the broker redelivers it
	}
	x.mu.Lock()
	if x.left {
		x.mu.Unlock()
		giveBack(m)
		return false
	}
	x.inHand++
	x.mu.Unlock()
	return true
}

// answeredOne is called for each message when it is finished or requeued.
func (x *Consumer) answeredOne(m *Message, finished bool) {
	x.mu.Lock()
	if m.conn.held.Add(-1) < 0 {
		m.conn.held.Add(1) // it had timed out
	}
	if x.credit.scarce {
		x.shareLocked(time.Now()) // another connection may use its share
	}
	x.inHand--
	if x.left && x.inHand == 0 {
		close(x.empty)
	}
	x.mu.Unlock()
	if hook := x.client.cfg.hooks.Answered; hook != nil {
		hook(x.topic, x.channel, finished)
	}
}

// Messages iterates over the messages until ctx ends or the consumer is closed. The caller
// finishes or requeues each. There is no backoff. Several goroutines may range over it.
func (x *Consumer) Messages(ctx context.Context) iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for {
			m := x.next(ctx)
			if m == nil || !yield(m) {
				return
			}
		}
	}
}

// Err returns why a broker has refused the consumer for good, or nil.
func (x *Consumer) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Close accepts no more messages, requeues those that were not delivered to the program, waits
// until all others are finished or requeued and the broker has confirmed that, and disconnects. If
// ctx ends first, Close disconnects at once and returns the cause; unanswered messages are
// redelivered. A second call waits like the first. A handler that calls Close waits for itself: it should end
// the context of Run instead.
func (x *Consumer) Close(ctx context.Context) error {
	x.beginToLeave()
	defer x.client.forget(x)
	defer x.stop(ErrClosed)
	for drained := false; !drained; {
		select {
		case m := <-x.arrivals:
			giveBack(m)
		default:
			drained = true
		}
	}
	select {
	case <-x.empty:
	case <-x.ctx.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close consumer of %s/%s: messages are still being handled: %w", x.topic, x.channel, context.Cause(ctx))
	}
	all := x.connections() // later ones get no messages
	for _, cn := range all {
		cn.queue(command{name: cmdCLS})
	}
	for _, cn := range all {
		select {
		case <-cn.goodbye: // everything before it was executed
		case <-cn.over:
		case <-ctx.Done():
			return fmt.Errorf("close consumer of %s/%s: %s has not confirmed: %w", x.topic, x.channel, cn.address, context.Cause(ctx))
		}
	}
	return nil
}

func (x *Consumer) beginToLeave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left {
		return
	}
	x.left = true
	close(x.leaving)
	if x.inHand == 0 {
		close(x.empty)
	}
	x.shareLocked(time.Now())
}

func (x *Consumer) connections() []*conn {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*conn, len(x.credit.sources))
	for i, s := range x.credit.sources {
		all[i] = s.conn
	}
	return all
}

func (c *Client) forget(x *Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.consumers, x)
}
