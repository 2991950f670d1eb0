package brokertest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/brokerd/brokerd/pkg/peer"
)

// gate is what all connections of a node go through. While it is shut nothing is read or
// written, as on a machine that hangs: connections stay open. Its methods may be called by
// many goroutines.
type gate struct {
	mu    sync.Mutex // guards what follows
	open  chan struct{}
	conns map[*gatedConn]struct{}
	dead  bool // nothing passes any more
}

var errDead = errors.New("node was killed")

func newGate() *gate {
	g := &gate{open: make(chan struct{}), conns: map[*gatedConn]struct{}{}}
	close(g.open)
	return g
}

// shut holds everything from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default: // it is shut
	}
}

// reopen lets everything continue.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// cut closes all connections, and drops what still arrives.
func (g *gate) cut() {
	g.mu.Lock()
	g.dead = true
	conns := g.conns
	g.conns = nil
	g.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

func (g *gate) state() (open <-chan struct{}, dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.dead
}

// pass waits until the gate is open.
func (g *gate) pass(closed <-chan struct{}) error {
	for {
		open, dead := g.state()
		if dead {
			return errDead
		}
		select {
		case <-open:
			return nil
		case <-closed:
			return net.ErrClosed
		}
	}
}

// wrap passes a connection through the gate.
func (g *gate) wrap(c net.Conn) (net.Conn, error) {
	gated := &gatedConn{Conn: c, gate: g, closed: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		_ = c.Close()
		return nil, errDead
	}
	g.conns[gated] = struct{}{}
	return gated, nil
}

func (g *gate) forget(c *gatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// gatedConn is a connection through a gate.
type gatedConn struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}
	err    error // of closing
}

// Read implements net.Conn. Data that arrives while the gate is shut waits.
func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if late := c.gate.pass(c.closed); late != nil {
		return 0, late
	}
	return n, err
}

// Write implements net.Conn.
func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.gate.pass(c.closed); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *gatedConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.gate.forget(c)
		c.err = c.Conn.Close()
	})
	return c.err
}

// gatedListener accepts connections through a gate.
type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements net.Listener.
func (l *gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.gate.wrap(c)
}

func (g *gate) listener(l net.Listener) net.Listener { return &gatedListener{l, g} }

// gatedNetwork makes connections to other nodes through a gate.
type gatedNetwork struct {
	peer.TCP
	gate *gate
}

// Dial implements peer.Network.
func (n gatedNetwork) Dial(ctx context.Context, local, address string) (net.Conn, error) {
	if err := n.gate.pass(ctx.Done()); err != nil {
		return nil, err
	}
	c, err := n.TCP.Dial(ctx, local, address)
	if err != nil {
		return nil, err
	}
	return n.gate.wrap(c)
}
