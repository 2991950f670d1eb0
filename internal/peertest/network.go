package peertest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// memCapacity is how many bytes a direction of an in-memory connection holds
// before writing blocks, as a socket's buffers do.
const memCapacity = 256 << 10

// memPacket is how many bytes arrive together on a link that has a rate.
const memPacket = 4 << 10

// firstMemPort is the first port of dialers, and of listeners that accept any port.
const firstMemPort = 32768

// Network is a Network in memory whose links can be slowed, cut and broken.
// All waiting is on channels, conditions and timers made by the calls
// themselves, so it runs under the virtual time of testing/synctest. Hosts are
// the host parts of addresses and need not be declared. Its methods may be
// called by many goroutines.
type Network struct {
	mu        sync.Mutex // guards what follows, and everything of its connections
	edges     map[memEdgeKey]*memEdge
	listeners map[string]*memListener
	unplugged map[string]bool // hosts
	ports     int
}

// Link is the state of one direction between two hosts.
type Link struct {
	// Delay is how long bytes, ends and connection attempts travel. It counts for
	// what is written after it is set.
	Delay time.Duration
	// Rate is how many bytes a second travel, of all connections together; 0: any
	// number.
	Rate int
	// Cut: nothing arrives. Like TCP's, what was written waits and arrives after
	// the cut, if the connection lives that long; attempts to connect hang.
	Cut bool
	// Largest is how many bytes that were written at once arrive; a larger piece, and
	// what was written after it on the connection, waits as behind a cut; 0: any number.
	Largest int
	// Block: writing blocks until its deadline, as when the other side's window
	// is shut.
	Block bool
}

type memEdgeKey struct{ from, to string }

// memEdge is one direction between two hosts.
type memEdge struct {
	link  Link
	pipes map[*memPipe]struct{} // that are open
	free  time.Time             // when what was sent has left, where there is a rate
}

// NewNetwork returns a network on which all is well.
func NewNetwork() *Network {
	return &Network{
		edges:     make(map[memEdgeKey]*memEdge),
		listeners: make(map[string]*memListener),
		unplugged: make(map[string]bool),
		ports:     firstMemPort,
	}
}

// SetLink changes the direction from one host to another, for open connections
// too.
func (n *Network) SetLink(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.edgeLocked(from, to).link = l
	for _, e := range []*memEdge{n.edgeLocked(from, to), n.edgeLocked(to, from)} {
		for p := range e.pipes {
			p.changed.Broadcast()
		}
	}
}

// Link returns the state of a direction.
func (n *Network) Link(from, to string) Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.edgeLocked(from, to).link
}

// Break resets every connection between two hosts, whichever of them opened it:
// both sides learn it at once, and data in transit is lost.
func (n *Network) Break(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range []*memEdge{n.edgeLocked(a, b), n.edgeLocked(b, a)} {
		for p := range e.pipes {
			p.resetLocked()
		}
	}
}

// Unplug disconnects a host: its connections are reset, and attempts to connect to it, or from it,
// are refused at once, while those over a cut link hang.
func (n *Network) Unplug(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unplugged[host] = true
	for k, e := range n.edges {
		if k.from != host && k.to != host {
			continue
		}
		for p := range e.pipes {
			p.resetLocked()
		}
	}
}

// Plug brings a host back that was unplugged.
func (n *Network) Plug(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.unplugged, host)
}

// Unplugged reports whether a host is off the network.
func (n *Network) Unplugged(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unplugged[host]
}

func (n *Network) edgeLocked(from, to string) *memEdge {
	k := memEdgeKey{from, to}
	e := n.edges[k]
	if e == nil {
		e = &memEdge{pipes: make(map[*memPipe]struct{})}
		n.edges[k] = e
	}
	return e
}

// memAddr is a host and port.
type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }

// Listen begins to accept connections to address; port 0 is any.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		address = n.anyPortLocked(host)
	}
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Addr: memAddr(address), Err: syscall.EADDRINUSE}
	}
	l := &memListener{network: n, address: memAddr(address), host: host, changed: sync.NewCond(&n.mu)}
	n.listeners[address] = l
	return l, nil
}

func (n *Network) anyPortLocked(host string) string {
	n.ports++
	return net.JoinHostPort(host, strconv.Itoa(n.ports))
}

// Dial connects from the host local, "" being a host like any other.
func (n *Network) Dial(ctx context.Context, local, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: memAddr(address), Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	there, back := n.edgeLocked(local, host), n.edgeLocked(host, local)
	changed := sync.NewCond(&n.mu)
	defer context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		changed.Broadcast()
	})()
	// One round trip, which a cut stops.
	for _, e := range []*memEdge{there, back} {
		if err := n.crossLocked(ctx, e, changed); err != nil {
			return fail(err)
		}
	}
	l := n.listeners[address]
	if l == nil || n.unplugged[local] || n.unplugged[host] {
		return fail(syscall.ECONNREFUSED)
	}
	ours, theirs := n.connLocked(memAddr(n.anyPortLocked(local)), l.address, there, back)
	l.waiting = append(l.waiting, theirs)
	l.changed.Signal()
	return ours, nil
}

// crossLocked waits until an attempt to connect has crossed an edge.
func (n *Network) crossLocked(ctx context.Context, e *memEdge, changed *sync.Cond) error {
	watch := &memPipe{edge: e, changed: changed}
	e.pipes[watch] = struct{}{}
	defer delete(e.pipes, watch)
	at := time.Now().Add(e.link.Delay)
	for {
		switch wait := time.Until(at); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case watch.reset:
			return syscall.ECONNRESET
		case e.link.Cut:
			changed.Wait()
		case wait > 0:
			n.waitLocked(changed, wait)
		default:
			return nil
		}
	}
}

// waitLocked waits for a change, or for d.
func (n *Network) waitLocked(changed *sync.Cond, d time.Duration) {
	timer := time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		changed.Broadcast()
	})
	defer timer.Stop()
	changed.Wait()
}

// connLocked returns the two ends of a new connection.
func (n *Network) connLocked(dialer, listener memAddr, there, back *memEdge) (ours, theirs *memConn) {
	out, in := newMemPipe(n, there, back), newMemPipe(n, back, there)
	return &memConn{network: n, local: dialer, remote: listener, in: in, out: out},
		&memConn{network: n, local: listener, remote: dialer, in: out, out: in}
}

// memListener accepts connections to one address.
type memListener struct {
	network *Network
	address memAddr
	host    string
	changed *sync.Cond
	waiting []*memConn
	closed  bool
}

// Accept returns the next connection.
func (l *memListener) Accept() (net.Conn, error) {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return nil, fmt.Errorf("accept %s: %w", l.address, net.ErrClosed)
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

// Close stops accepting; connections that were not accepted yet are reset.
func (l *memListener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	delete(l.network.listeners, string(l.address))
	for _, c := range l.waiting {
		c.in.resetLocked()
		c.out.resetLocked()
	}
	l.changed.Broadcast()
	return nil
}

// Addr returns the address that is listened to.
func (l *memListener) Addr() net.Addr { return l.address }
