package peer

import (
	"context"
	"net"
	"time"
)

// raftListener accepts connections of class Raft.
type raftListener struct {
	conns  chan net.Conn
	addr   address
	ctx    context.Context
	cancel context.CancelFunc
}

// address is the host and port that other nodes dial.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func newRaftListener(ctx context.Context, addr string) *raftListener {
	l := &raftListener{conns: make(chan net.Conn), addr: address(addr)}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// RaftListener returns the listener that accepts the connections of class Raft from other nodes,
// after their hellos. A connection belongs to the caller that accepts it. Connections are refused
// until RaftListener was called, and after the listener is closed, until it is called again. Its Addr
// is Options.Advertise.
func (t *Transport) RaftListener() net.Listener {
	l := newRaftListener(t.ctx, t.options.Advertise)
	t.raft.Store(l)
	return l
}

// DialRaft opens a connection of class Raft to a node at an address, within the timeout; 0: the
// timeouts of Options. It refuses another node there. If to is "", it accepts any. The connection
// belongs to the caller.
func (t *Transport) DialRaft(ctx context.Context, to Node, address string, timeout time.Duration) (net.Conn, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	conn, _, err := t.dialFor(ctx, to, ClassRaft, address)
	return conn, err
}

// dialFor dials a node at an address, or any node if to is "", until ctx or the Transport ends.
func (t *Transport) dialFor(ctx context.Context, to Node, c Class, address string) (net.Conn, *Hello, error) {
	if t.ctx.Err() != nil {
		return nil, nil, errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	conn, answer, err := t.dial(ctx, to, c, address)
	if err != nil {
		if ctx.Err() == nil {
			t.failed(to, c, address, err)
		}
		return nil, nil, err
	}
	return conn, answer, nil
}

// wanted reports whether a caller accepts connections.
func (l *raftListener) wanted() bool { return l != nil && l.ctx.Err() == nil }

// offer waits for timeout until a caller accepts the connection. If none does, it closes the
// connection.
func (l *raftListener) offer(conn net.Conn, timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case l.conns <- conn:
	case <-timer.C:
		conn.Close()
	case <-l.ctx.Done():
		conn.Close()
	}
}

// Accept returns the next connection. After Close the error is net.ErrClosed.
func (l *raftListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends accepting.
func (l *raftListener) Close() error {
	l.cancel()
	return nil
}

// Addr returns the address that other nodes dial.
func (l *raftListener) Addr() net.Addr { return l.addr }
