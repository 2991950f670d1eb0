package peer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
)

// Peer calls one node in one class, over a connection that it makes when it is needed, and makes
// again when it breaks. Its methods are safe for concurrent use.
type Peer struct {
	t       *Transport
	node    Node
	class   Class
	address string
	onUp    func(session uint64)
	onDown  func(session uint64)
	count   *counters
	seed    uint64

	ctx    context.Context // ends with Close, or with the Transport
	cancel context.CancelFunc
	live   atomic.Pointer[link] // the connection, set under mu once the calls that waited for it are queued

	mu      sync.Mutex // guards what follows
	holds   int
	waiting []waitingCall
	opening uint64        // a session that is up and not in live yet
	hurried chan struct{} // holds one: end the pause before the next attempt
	bytes   int           // of the waiting calls
	running bool          // a goroutine connects or serves
	stopped chan struct{} // closed when that goroutine has ended; nil: there was none
	attempt int           // how many in a row have failed
	retryAt time.Time     // the earliest time of the next attempt
	lastErr error         // of the last attempt
}

// waitingCall is a call that waits for a connection.
type waitingCall struct {
	session uint64 // 0: any
	kind    uint8
	payload [][]byte
	done    func([]byte, error)
}

// size returns the bytes of the call's frame.
func (c *waitingCall) size() int {
	n := frameHeader
	for _, b := range c.payload {
		n += len(b)
	}
	return n
}

// PeerOption changes a Peer when it is created.
type PeerOption func(*Peer)

// OnUp is called with the number of a new session before any call is sent in it.
// It must not block, nor close the Peer.
func OnUp(f func(session uint64)) PeerOption { return func(p *Peer) { p.onUp = f } }

// OnDown is called when a session has ended, after the last done of its calls. It must not block,
// nor close the Peer.
func OnDown(f func(session uint64)) PeerOption { return func(p *Peer) { p.onDown = f } }

// Peer returns a new Peer for a node. Each Peer has a connection of its own: share the Peer to
// share the connection. It connects when there is a call, or while it is held; see Hold. The caller
// closes it.
func (t *Transport) Peer(node Node, class Class, address string, options ...PeerOption) *Peer {
	p := &Peer{
		t: t, node: node, class: class, address: address,
		onUp: func(uint64) {}, onDown: func(uint64) {}, hurried: make(chan struct{}, 1),
		count: t.ledger.of(statsKey{node, class, false}),
		seed:  seedOf(string(t.options.Self), string(node), class.String()) + t.options.Incarnation,
	}
	for _, o := range options {
		o(p)
	}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	return p
}

// Hold requests a connection even without calls: the Peer connects now, and again with growing
// pauses after each failure, until Release.
func (p *Peer) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	p.startLocked()
}

// Release ends one Hold. An existing connection stays.
func (p *Peer) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds--; p.holds < 0 {
		panic("BUG: peer released more often than held")
	}
}

// Connected returns the current session.
func (p *Peer) Connected() (session uint64, ok bool) {
	if l := p.live.Load(); l != nil && l.out.cause() == nil {
		return l.session, true
	}
	return 0, false
}

// Gatherer returns the current connection, or nil.
func (p *Peer) Gatherer() Gatherer {
	if l := p.live.Load(); l != nil {
		return l.out
	}
	return nil
}

// Go makes a call and returns at once. Calls do not wait for each other's answers. payload must not
// be changed until done is called. done is called exactly once: with the answer, which is valid
// until done returns, or with an error. The connection's reader calls the done of an answer, in the
// order in which answers arrive; done must not block. If a call cannot be sent, done is called
// before Go returns or later, with an error that is marked fate.Refused. While there is no
// connection, calls wait for the current attempt to connect. Between two attempts they fail at once
// with the error of the last one.
func (p *Peer) Go(kind uint8, payload [][]byte, done func(reply []byte, err error)) {
	if err := p.Send(0, kind, payload, done); err != nil {
		done(nil, err)
	}
}

// Send makes a call as Go does, but only in the session with that number; 0: in any. If it returns
// nil, another goroutine will call done. Otherwise done will not be called: the call was not sent,
// and the error is marked fate.Refused. Within OnUp, calls in the new session can already be sent.
func (p *Peer) Send(session uint64, kind uint8, payload [][]byte, done func(reply []byte, err error)) error {
	c := waitingCall{session, kind, payload, done}
	err := c.callIn(p.live.Load())
	if errors.Is(err, errNotLive) {
		err = p.enqueue(c)
	} else {
		p.count.calls.Add(1)
	}
	if err != nil {
		p.count.failed.Add(1)
	}
	return err
}

// errNotLive reports that a call needs another connection.
var errNotLive = errors.New("wrong connection class for this call")

// callIn passes the call to the current connection if it is the right one. errNotLive means that it
// was the wrong one, or has broken.
func (c *waitingCall) callIn(l *link) error {
	if l == nil || c.session != 0 && c.session != l.session {
		return errNotLive
	}
	err := l.call(c.kind, c.payload, c.done)
	if err != nil && !errors.Is(err, errBusy) && !errors.Is(err, ErrTooBig) {
		return errNotLive
	}
	return err
}

// refuse ends a call that was not sent.
func (p *Peer) refuse(done func([]byte, error), err error) {
	p.count.calls.Add(1)
	p.count.failed.Add(1)
	done(nil, err)
}

// enqueue makes a call wait for a connection, or passes it to one that was established meanwhile.
// After an error, done will not be called. The call is counted here, or when it leaves the queue.
func (p *Peer) enqueue(c waitingCall) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := c.callIn(p.live.Load())
	if errors.Is(err, errNotLive) {
		if err = p.queueLocked(c); err == nil {
			return nil
		}
	}
	p.count.calls.Add(1)
	return err
}

// queueLocked makes a call wait for a connection.
func (p *Peer) queueLocked(c waitingCall) error {
	size := c.size()
	o := &p.t.options
	switch {
	case p.ctx.Err() != nil:
		return errClosed
	case c.session != 0 && c.session != p.opening:
		return errSessionOver
	case size-frameHeader > o.MaxFrame:
		return ErrTooBig
	case p.bytes >= o.queue(p.class) || len(p.waiting) >= o.MaxCalls:
		return errBusy
	case p.opening == 0 && p.lastErr != nil && time.Now().Before(p.retryAt):
		return p.lastErr
	}
	if !p.startLocked() {
		return errClosed
	}
	p.waiting = append(p.waiting, c)
	p.bytes += size
	return nil
}

// Hurry reports that the node can probably be reached now: the Peer ends the pause before the next
// attempt to connect, and the pauses after it are short again.
func (p *Peer) Hurry() {
	p.mu.Lock()
	p.attempt, p.retryAt, p.lastErr = 0, time.Time{}, nil
	p.mu.Unlock()
	signal.Poke(p.hurried)
}

// startLocked makes sure that a goroutine connects. It returns false if the Transport is closed.
func (p *Peer) startLocked() bool {
	if p.running {
		return true
	}
	stopped := make(chan struct{})
	if !p.t.start(func() {
		defer close(stopped)
		p.run()
	}) {
		return false
	}
	p.running, p.stopped = true, stopped
	return true
}

// run connects, and serves the connection while one is wanted.
func (p *Peer) run() {
	for p.wanted() {
		conn, answer, err := p.t.dial(p.ctx, p.node, p.class, p.address)
		if err != nil {
			if p.ctx.Err() == nil {
				p.t.failed(p.node, p.class, p.address, err)
			}
			p.unreachable(err)
			continue
		}
		p.serve(conn, answer)
	}
}

// wanted waits until the next attempt is due, and reports whether there is one.
func (p *Peer) wanted() bool {
	for {
		p.mu.Lock()
		if p.ctx.Err() != nil || p.holds == 0 && len(p.waiting) == 0 {
			p.running = false
			calls := p.popWaitingLocked()
			p.mu.Unlock()
			p.refuseAll(calls, errClosed)
			return false
		}
		pause := time.Until(p.retryAt)
		p.mu.Unlock()
		if pause <= 0 {
			return true
		}
		p.pause(pause)
	}
}

// pause waits for d, or shorter if there is reason to continue.
func (p *Peer) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.hurried:
	case <-p.ctx.Done():
	}
}

func (p *Peer) popWaitingLocked() []waitingCall {
	calls := p.waiting
	p.waiting, p.bytes = nil, 0
	return calls
}

func (p *Peer) refuseAll(calls []waitingCall, err error) {
	for _, c := range calls {
		p.refuse(c.done, err)
	}
}

// unreachable ends the calls that waited for a failed attempt.
func (p *Peer) unreachable(err error) {
	p.mu.Lock()
	p.pauseLocked(err)
	calls := p.popWaitingLocked()
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		err = errClosed
	}
	p.refuseAll(calls, err)
}

// pauseLocked sets the time of the next attempt.
func (p *Peer) pauseLocked(err error) {
	o := &p.t.options
	p.attempt++
	p.retryAt = time.Now().Add(backoff(o.BackoffMin, o.BackoffMax, p.attempt, p.seed))
	p.lastErr = err
}

// serve sends the waiting calls, and then new ones, until the connection breaks.
func (p *Peer) serve(conn net.Conn, answer *Hello) {
	l := p.t.newLink(conn, answer, p.count)
	l.dialed = true
	defer context.AfterFunc(p.ctx, func() { l.fail(errClosed) })()
	event := Event{Kind: EventUp, Node: p.node, Class: p.class, Address: p.address, Session: l.session}
	p.t.options.OnEvent(event)
	p.mu.Lock()
	p.opening = l.session
	p.mu.Unlock()
	p.onUp(l.session)
	p.open(l)

	began := time.Now()
	err := l.serve()
	p.shut(err, time.Since(began))

	p.onDown(l.session)
	event.Kind, event.Err = EventDown, err
	p.t.options.OnEvent(event)
}

// open passes the waiting calls to a new connection, and then all others.
func (p *Peer) open(l *link) {
	p.refuseAll(p.handOut(l), errSessionOver)
}

// handOut returns the waiting calls that were for this session only and that it did not take.
func (p *Peer) handOut(l *link) (missed []waitingCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErr, p.opening = nil, 0
	for _, c := range p.popWaitingLocked() {
		switch {
		case l.call(c.kind, c.payload, c.done) == nil:
			p.count.calls.Add(1)
		case c.session != 0:
			missed = append(missed, c)
		default: // the session broke already: this call waits for the next one
			p.waiting = append(p.waiting, c)
			p.bytes += c.size()
		}
	}
	p.live.Store(l)
	return missed
}

// shut removes a connection that broke after it had lived for a while.
func (p *Peer) shut(err error, lived time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.Store(nil)
	if lived >= p.t.options.BackoffMax {
		p.attempt, p.retryAt = 0, time.Time{}
		return
	}
	p.pauseLocked(&UnreachableError{Node: p.node, Address: p.address, Err: err})
}

// Close ends the connection and all calls, and returns when everything has stopped. It must not be
// called from a callback.
func (p *Peer) Close() {
	p.cancel()
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// Call is Go and Await.
func (p *Peer) Call(ctx context.Context, kind uint8, payload [][]byte) ([]byte, error) {
	return Await(ctx, func(done func([]byte, error)) { p.Go(kind, payload, done) })
}

// Await makes a call with begin and waits for its answer, which the caller owns. If ctx ends first,
// the call may still be carried out, and its payload must never be changed again.
func Await(ctx context.Context, begin func(done func(reply []byte, err error))) ([]byte, error) {
	type result struct {
		reply []byte
		err   error
	}
	results := make(chan result, 1)
	begin(func(reply []byte, err error) { results <- result{bytes.Clone(reply), err} })
	select {
	case r := <-results:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Ping returns the hello of the node that is at an address, over a connection of its own. It works between nodes of
// different clusters and of none. It fails when ctx ends or after the timeouts of Options. An error
// is an *UnreachableError. If a node answered and refused, it contains a *RefusedError: Ping of the
// node's own address fails with ReasonSelf.
func (t *Transport) Ping(ctx context.Context, address string) (*Hello, error) {
	conn, h, err := t.dialFor(ctx, "", ClassPing, address)
	if err != nil {
		return nil, err
	}
	conn.Close()
	return h, nil
}
