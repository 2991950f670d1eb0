package raftstore

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
)

// testNet is a network in memory. Names of nodes are their addresses.
type testNet struct {
	mu        sync.Mutex // guards the fields below
	listeners map[string]*testListener
	conns     map[net.Conn][2]string
	cut       map[string]bool // reaches nobody
}

func newTestNet() *testNet {
	return &testNet{listeners: map[string]*testListener{}, conns: map[net.Conn][2]string{}, cut: map[string]bool{}}
}

func (n *testNet) listen(name string) *testListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &testListener{net: n, name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[name] = l
	return l
}

// reachable returns the listener at to, or nil.
func (n *testNet) reachable(from, to string) *testListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[from] || n.cut[to] {
		return nil
	}
	return n.listeners[to]
}

func (n *testNet) dial(from string) func(context.Context, string, time.Duration) (net.Conn, error) {
	return func(ctx context.Context, to string, _ time.Duration) (net.Conn, error) {
		l := n.reachable(from, to)
		if l == nil {
			return nil, syscall.ECONNREFUSED
		}
		near, far := net.Pipe()
		select {
		case l.conns <- far:
		case <-l.closed:
			return nil, syscall.ECONNREFUSED
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut[from] || n.cut[to] { // meanwhile
			_ = near.Close()
			return nil, syscall.ECONNREFUSED
		}
		n.conns[near] = [2]string{from, to}
		return near, nil
	}
}

// set cuts a node off, or lets it come back.
func (n *testNet) set(name string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[name] = cut
	for c, ends := range n.conns {
		if cut && (ends[0] == name || ends[1] == name) {
			_ = c.Close()
			delete(n.conns, c)
		}
	}
}

type testListener struct {
	net    *testNet
	name   string
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *testListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *testListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.listeners[l.name] == l {
			delete(l.net.listeners, l.name)
		}
	})
	return nil
}

func (l *testListener) Addr() net.Addr { return streamAddr(l.name) }
