package raftstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Stream connects the nodes of the Raft group. Both fields are required.
type Stream struct {
	// Listener yields the connections that other nodes opened. The store closes it.
	Listener net.Listener
	// Dial connects to a node at an address, and fails if another node answers there: a vote of one
	// node must never count as that of another. It gives up after timeout.
	Dial func(ctx context.Context, to meta.NodeID, address string, timeout time.Duration) (net.Conn, error)
}

// errNotReached reports that no connection to a node could be opened.
var errNotReached = errors.New("not connected")

// streamLayer adapts a Stream to the consensus library. It connects to the node itself without the
// network, and closes all connections that it returned.
type streamLayer struct {
	Stream
	self   string
	node   meta.NodeID
	ctx    context.Context // for all dials, because the library passes none
	cancel context.CancelFunc
	conns  chan net.Conn // waiting for Accept
	work   sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	open map[*streamConn]struct{}
	done bool
}

func newStreamLayer(o *Options) *streamLayer {
	l := &streamLayer{Stream: *o.Stream, self: o.Address, node: o.NodeID, conns: make(chan net.Conn), open: map[*streamConn]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(l.listen)
	return l
}

// listen passes on connections of the Listener, until it is closed.
func (l *streamLayer) listen() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			l.hand(c)
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(acceptRetry):
		}
	}
}

// hand passes a connection to Accept, or closes it.
func (l *streamLayer) hand(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.ctx.Done():
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return l.track(c)
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// memberAddress returns the address under which the library connects to a member and pools the
// connections. With the address alone, the connection to a member that has left it to another one would
// lead to that one, whose answers then count as those of both.
func memberAddress(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + address
}

// Dial implements raft.StreamLayer: it connects to a member at its memberAddress.
func (l *streamLayer) Dial(member raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, address, _ := strings.Cut(string(member), "@") // a node id contains none
	if id == string(l.node) {
		near, far := net.Pipe()
		l.hand(far)
		return l.track(near)
	}
	c, err := l.Stream.Dial(l.ctx, meta.NodeID(id), address, timeout)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotReached, err)
	}
	return l.track(c)
}

func (l *streamLayer) track(c net.Conn) (net.Conn, error) {
	t := &streamConn{Conn: c, layer: l}
	l.mu.Lock()
	done := l.done
	if !done {
		l.open[t] = struct{}{}
	}
	l.mu.Unlock()
	if done {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return t, nil
}

// Close implements net.Listener. It closes open connections.
func (l *streamLayer) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.mu.Lock()
	l.done = true
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Addr implements net.Listener: it returns the advertised address.
func (l *streamLayer) Addr() net.Addr { return streamAddr(l.self) }

type streamAddr string

func (streamAddr) Network() string  { return "cluster" }
func (a streamAddr) String() string { return string(a) }

type streamConn struct {
	net.Conn
	layer *streamLayer
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.open, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}
