package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/fan"
)

// Transport is one node's end of all connections to others. Its methods may be
// called by many goroutines.
type Transport struct {
	options    Options
	pool       chunkPool
	memory     frameMemory
	unverified *unverified
	places     chan struct{} // holds one for each connection that a member made
	ledger     ledger
	raft       atomic.Pointer[raftListener] // nil: no caller accepts
	opened     atomic.Uint64                // connections made, for session numbers

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	running fan.Group
}

// New returns a Transport that does not listen or connect yet.
func New(o Options) (*Transport, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cluster transport: %w", err)
	}
	t := &Transport{
		options: o, memory: frameMemory{max: o.FrameMemory},
		unverified: newUnverified(o.MaxVisitors, o.MaxVisitorsHost), places: make(chan struct{}, o.MaxConnections),
	}
	t.ledger.counts = make(map[statsKey]*counters)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// start runs f in a goroutine for which Close waits. It returns false after Close.
func (t *Transport) start(f func()) bool { return t.running.Go(f) }

// Close ends all connections except those of class Raft, and returns when everything has stopped.
// Calls in progress end with ErrDisconnected. It must not be called from a callback.
func (t *Transport) Close() error {
	t.cancel()
	t.running.Close()
	return nil
}

// Stats returns the traffic since New, by node, class and direction.
func (t *Transport) Stats() []Stats { return t.ledger.snapshot() }

// Serve accepts connections until ctx ends or the Transport is closed. It then returns nil, after
// the last of its connections has ended. It closes the listener. errClosed means that the Transport
// was closed before.
func (t *Transport) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	done := make(chan struct{})
	defer close(done)
	if !t.start(func() { <-done }) {
		return errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(t.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { l.Close() })()

	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	for failures := 0; ; {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept cluster connection: %w", err)
		case err != nil: // for example, no file descriptors are left
			failures++
			t.options.OnEvent(Event{Kind: EventAccept, Address: l.Addr().String(), Inbound: true, Err: err})
			beat.Pause(ctx, backoff(t.options.BackoffMin, t.options.BackoffMax, failures, 0))
			continue
		}
		failures = 0
		leave, ok := t.unverified.enter(conn.RemoteAddr())
		if !ok {
			conn.Close()
			continue
		}
		conns.Go(func() {
			p := place{leave: leave, members: t.places}
			defer p.free()
			t.accepted(ctx, conn, &p)
		})
	}
}

// accepted serves a connection that another node made, until it ends. p is its place.
func (t *Transport) accepted(ctx context.Context, raw net.Conn, p *place) {
	unwatch := context.AfterFunc(ctx, func() { raw.Close() })
	defer unwatch()
	event := Event{Inbound: true, Address: raw.RemoteAddr().String()}
	conn, hello, err := t.receive(ctx, raw, p)
	if hello != nil {
		event.Node, event.Class, event.Session = hello.Node, hello.Class, hello.Session
	}
	if err != nil {
		raw.Close()
		event.Kind, event.Err = EventBadHello, err
		if _, refused := errors.AsType[*RefusedError](err); refused {
			event.Kind = EventRejected
		}
		if ctx.Err() == nil {
			t.options.OnEvent(event)
		}
		return
	}
	if hello.Class.visits() {
		over := time.AfterFunc(visitTimeout, func() { raw.Close() })
		defer over.Stop()
	} else {
		p.leave()
	}
	if hello.Class == ClassRaft {
		unwatch()
		t.raft.Load().offer(conn, t.options.HandshakeTimeout)
		return
	}
	l := t.newLink(conn, hello, t.ledger.of(statsKey{hello.Node, hello.Class, true}))
	l.handler = bind(t.options.Handlers[hello.Class], hello.Node, hello.Session, l.out)
	announce := !hello.Class.visits()
	if announce {
		event.Kind = EventUp
		t.options.OnEvent(event)
	}
	err = l.serve()
	if ctx.Err() != nil {
		err = errClosed
	}
	if announce {
		event.Kind, event.Err = EventDown, err
		t.options.OnEvent(event)
	}
}

// bind returns what a link calls for a handler; nil for none.
func bind(h Handler, from Node, session uint64, by Gatherer) func(uint8, []byte, func([][]byte, error)) {
	if h == nil {
		return nil
	}
	if b, ok := h.(GatheringHandler); ok {
		return func(kind uint8, payload []byte, reply func([][]byte, error)) {
			b.HandleBy(by, from, session, kind, payload, reply)
		}
	}
	return func(kind uint8, payload []byte, reply func([][]byte, error)) {
		h.Handle(from, session, kind, payload, reply)
	}
}

func (t *Transport) newLink(conn net.Conn, remote *Hello, count *counters) *link {
	l := &link{
		conn: conn, remote: remote, session: remote.Session, options: &t.options, pool: &t.pool, memory: &t.memory,
		count: count, out: newOutbox(), born: time.Now(),
	}
	if d := newDirect(l); d != nil {
		l.out.try = d.write
	}
	return l
}

// serve runs the link and updates its counters.
func (l *link) serve() error {
	l.count.connects.Add(1)
	l.count.up.Add(1)
	defer l.count.up.Add(-1)
	return l.run()
}

// receive does the accepting side's part of the handshake. It returns the hello even with an error,
// if it could be read.
func (t *Transport) receive(ctx context.Context, raw net.Conn, p *place) (net.Conn, *Hello, error) {
	raw.SetDeadline(time.Now().Add(t.options.HandshakeTimeout))
	conn := raw
	var leaf *x509.Certificate
	if t.options.ServerTLS != nil {
		secured, cert, err := serverTLS(ctx, raw, t.options.ServerTLS())
		if err != nil {
			return nil, nil, fmt.Errorf("TLS: %w", err)
		}
		conn, leaf = secured, cert
	}
	hello, err := readHello(conn)
	if err != nil {
		return nil, nil, err
	}
	if refused := t.judge(hello, leaf); refused != nil {
		conn.Write(encodeRefusal(refused.Reason, refused.Text)) //nolint:errcheck // the peer may have disconnected
		return nil, hello, refused
	}
	secrets := t.options.secrets(hello.Class)
	if refused := noSecret(secrets, hello); refused != nil {
		conn.Write(encodeRefusal(refused.Reason, refused.Text)) //nolint:errcheck // the peer may have disconnected
		return nil, hello, refused
	}
	if !hello.Class.visits() && !p.admit() {
		return nil, hello, errTooMany
	}
	answer := t.hello(hello.Class, hello.Node, hello.Session)
	answer.challenge(secrets)
	if _, err := conn.Write(encodeHello(answer)); err != nil {
		return nil, hello, fmt.Errorf("answer hello: %w", err)
	}
	if err := challengeDialer(conn, secrets, hello, answer); err != nil {
		return nil, hello, err
	}
	conn.SetDeadline(time.Time{})
	return conn, hello, nil
}

// judge decides about a dialer's hello.
func (t *Transport) judge(h *Hello, leaf *x509.Certificate) *RefusedError {
	self := identity{t.options.Self, t.options.Incarnation, t.options.ClusterID()}
	if refused := judgeDialer(self, h, leaf); refused != nil {
		return refused
	}
	if !t.serves(h.Class) {
		return &RefusedError{Reason: ReasonClass, Text: h.Class.String(), Local: true}
	}
	if h.Class == ClassPing {
		return nil
	}
	if r := t.options.Admit(h); r != ReasonNone {
		return &RefusedError{Reason: r, Local: true}
	}
	return nil
}

func (t *Transport) serves(c Class) bool {
	switch c {
	case ClassPing:
		return true
	case ClassRaft:
		return t.raft.Load().wanted()
	case ClassReplication, ClassForward, ClassForm:
	}
	return t.options.Handlers[c] != nil
}

// hello returns this node's hello.
func (t *Transport) hello(c Class, to Node, session uint64) *Hello {
	return &Hello{
		MinVersion: minVersion, MaxVersion: maxVersion, Class: c,
		Incarnation: t.options.Incarnation, Session: session,
		ClusterID: t.options.ClusterID(), Node: t.options.Self, To: to, Build: t.options.Build,
	}
}

// dial connects to a node and does the dialer's part of the handshake. An error is an
// *UnreachableError.
func (t *Transport) dial(ctx context.Context, to Node, c Class, address string) (net.Conn, *Hello, error) {
	conn, answer, err := t.connect(ctx, to, c, address)
	if err != nil {
		return nil, nil, &UnreachableError{Node: to, Address: address, Err: err}
	}
	return conn, answer, nil
}

func (t *Transport) connect(ctx context.Context, to Node, c Class, address string) (net.Conn, *Hello, error) {
	dialing, cancel := context.WithTimeout(ctx, t.options.DialTimeout)
	defer cancel()
	raw, err := t.options.Network.Dial(dialing, t.options.LocalAddr, address)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn, answer, err := t.introduce(ctx, raw, t.hello(c, to, t.newSession()))
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	return conn, answer, nil
}

// newSession returns a number that no other connection of this process has.
func (t *Transport) newSession() uint64 {
	return mix(mix(seedOf(string(t.options.Self))+t.options.Incarnation) + t.opened.Add(1))
}

// introduce exchanges hellos over a new connection.
func (t *Transport) introduce(ctx context.Context, raw net.Conn, own *Hello) (net.Conn, *Hello, error) {
	deadline := time.Now().Add(t.options.HandshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	raw.SetDeadline(deadline)
	conn := raw
	var leaf *x509.Certificate
	if t.options.ClientTLS != nil {
		secured, cert, err := clientTLS(ctx, raw, t.options.ClientTLS())
		if err != nil {
			return nil, nil, fmt.Errorf("TLS: %w", err)
		}
		conn, leaf = secured, cert
	}
	secrets := t.options.secrets(own.Class)
	own.challenge(secrets)
	if _, err := conn.Write(encodeHello(own)); err != nil {
		return nil, nil, fmt.Errorf("send hello: %w", err)
	}
	answer, err := readHello(conn)
	if err != nil {
		return nil, nil, err
	}
	if refused := judgeAnswer(own, answer, leaf); refused != nil {
		return nil, nil, refused
	}
	if refused := noSecret(secrets, answer); refused != nil {
		return nil, nil, refused
	}
	if err := answerChallenge(conn, secrets, own, answer); err != nil {
		return nil, nil, err
	}
	conn.SetDeadline(time.Time{})
	answer.Session, answer.Class = own.Session, own.Class
	return conn, answer, nil
}

// failed reports a failed attempt to connect.
func (t *Transport) failed(to Node, c Class, address string, err error) {
	kind := EventFailed
	if errors.Is(err, syscall.ECONNREFUSED) {
		kind = EventRefused
	}
	if _, refused := errors.AsType[*RefusedError](err); refused {
		kind = EventRejected
	}
	t.options.OnEvent(Event{Kind: kind, Node: to, Class: c, Address: address, Err: err})
}
