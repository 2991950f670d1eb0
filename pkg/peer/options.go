package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
)

// Defaults of Options.
const (
	defaultMaxQueuedBytes   = 128 << 20
	defaultMaxCalls         = 1 << 16
	defaultMaxConnections   = 4096
	defaultMaxVisitors      = 512
	defaultMaxVisitorsHost  = 64
	defaultFrameMemory      = 512 << 20
	visitTimeout            = 10 * time.Second // of a connection of a class that is open to all
	DefaultHandshakeTimeout = 2 * time.Second
	DefaultDialTimeout      = 2 * time.Second
	DefaultWriteTimeout     = 10 * time.Second
	DefaultKeepAlive        = 800 * time.Millisecond
	DefaultDeadAfter        = 3 * time.Second
	DefaultBackoffFirst     = 20 * time.Millisecond
	DefaultBackoffLast      = time.Second
)

// Handler handles the calls of one class. The goroutine that reads a connection calls Handle, in
// the order in which the calls of that session were made. Calls of other sessions arrive
// concurrently. Handle must not block. payload is valid until Handle returns. reply must be called
// exactly once, by any goroutine and at any time; its payload must not be changed afterwards. An
// error that is no *RemoteError is sent as one with code 0.
type Handler interface {
	Handle(from Node, session uint64, kind uint8, payload []byte, reply func(payload [][]byte, err error))
}

// Gatherer is a connection that delays frames between Hold and Release, to send them together. It
// is safe for concurrent use, and holds may be nested. A large or long-held amount is sent anyway.
type Gatherer interface {
	Hold()
	Release()
}

// GatheringHandler is a Handler whose answers may be gathered. Its HandleBy is called instead of
// Handle, with the same rules. by is the connection of the call.
type GatheringHandler interface {
	Handler
	HandleBy(by Gatherer, from Node, session uint64, kind uint8, payload []byte, reply func(payload [][]byte, err error))
}

// Options describe a Transport. Self is required. The other fields have defaults.
type Options struct {
	Self        Node
	ClusterID   func() string // "": the node is in no cluster yet; nil: it never is
	Incarnation uint64        // of this process: different at every start
	Build       string        // version of the software, for people
	Network     Network       // nil: TCP
	LocalAddr   string        // host from which connections are made; "": any
	Advertise   string        // host:port by which others reach this node: RaftListener's Addr

	// ServerTLS and ClientTLS return the configuration of the next handshake. They are called for
	// each handshake, so certificates may change. Set both or neither.
	ServerTLS, ClientTLS func() *tls.Config

	// Secrets returns the secrets of which both ends of a connection must have one, with TLS or
	// without, except for pings. It is called for each connection. This side proves the first one
	// and accepts any. nil, or no secrets: none is required.
	Secrets func() [][]byte

	// Handlers handle the calls of each class. Class Raft has none.
	Handlers map[Class]Handler
	// Admit decides about a node that introduced itself properly, except for pings. For class
	// formation it must not check membership. nil: every node is admitted. It must not block.
	Admit func(*Hello) Reason
	// OnEvent is called for events of connections, concurrently by many goroutines. It must not
	// block.
	OnEvent func(Event)

	MaxFrame       int // bytes of a payload; 0: limit.Sizes.Frame
	MaxQueuedBytes int // waiting to be written to one connection; below it, one more frame of any size is accepted. Class replication has room for MaxFrame in addition.
	MaxCalls       int // of one Peer without an answer
	MaxConnections int // to this node, made by members
	// MaxVisitors limits the connections whose other end has not introduced itself, or whose class
	// is open to all. MaxVisitorsHost limits those of one host.
	MaxVisitors, MaxVisitorsHost int
	// FrameMemory limits the memory of all frames over largeChunk together while they are read, in
	// bytes. A connection waits until memory is free. If no other frame has any, it gets what it
	// needs.
	FrameMemory int

	HandshakeTimeout time.Duration // TLS and hellos
	DialTimeout      time.Duration // for connecting by TCP
	WriteTimeout     time.Duration // for a megabyte
	KeepAlive        time.Duration // between pings of the side that dialed
	DeadAfter        time.Duration // silence after which a connection is given up
	BackoffMin       time.Duration // before the second attempt to connect
	BackoffMax       time.Duration
}

// withDefaults returns the options with all defaults set.
func (o Options) withDefaults() Options {
	if o.ClusterID == nil {
		o.ClusterID = func() string { return "" }
	}
	if o.Network == nil {
		o.Network = TCP{}
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	if o.Admit == nil {
		o.Admit = func(*Hello) Reason { return ReasonNone }
	}
	o.MaxFrame = cmp.Or(o.MaxFrame, limit.Default().Frame)
	o.MaxQueuedBytes = cmp.Or(o.MaxQueuedBytes, defaultMaxQueuedBytes)
	o.MaxCalls = cmp.Or(o.MaxCalls, defaultMaxCalls)
	o.MaxConnections = cmp.Or(o.MaxConnections, defaultMaxConnections)
	o.MaxVisitors = cmp.Or(o.MaxVisitors, defaultMaxVisitors)
	o.MaxVisitorsHost = cmp.Or(o.MaxVisitorsHost, defaultMaxVisitorsHost)
	o.FrameMemory = cmp.Or(o.FrameMemory, defaultFrameMemory)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	o.KeepAlive = cmp.Or(o.KeepAlive, DefaultKeepAlive)
	o.DeadAfter = cmp.Or(o.DeadAfter, DefaultDeadAfter)
	o.BackoffMin = cmp.Or(o.BackoffMin, DefaultBackoffFirst)
	o.BackoffMax = cmp.Or(o.BackoffMax, DefaultBackoffLast)
	return o
}

// maxVisitorFrame limits a payload of the classes that are open to all: requests of formation are a
// few lines of JSON.
const maxVisitorFrame = 64 << 10

// frame returns how many bytes a payload of a class may have.
func (o *Options) frame(c Class) int {
	switch c {
	case ClassPing:
		return 0
	case ClassForm:
		return min(maxVisitorFrame, o.MaxFrame)
	case ClassRaft, ClassReplication, ClassForward:
	}
	return o.MaxFrame
}

// secrets returns the secrets that a connection of a class has to prove, or none.
func (o *Options) secrets(c Class) [][]byte {
	if o.Secrets == nil || c == ClassPing {
		return nil
	}
	return o.Secrets()
}

// queue returns how many bytes of calls may wait for one connection before one more is refused.
// Replicators limit what they send to limit.Sizes.Pair, and exceed that by less than one frame:
// this must not fill the queue.
func (o *Options) queue(c Class) int {
	if c == ClassReplication {
		return o.MaxQueuedBytes + o.MaxFrame
	}
	return o.MaxQueuedBytes
}

// validate refuses options that cannot work. It expects options with defaults.
func (o *Options) validate() error {
	for _, s := range []struct {
		what, text string
		from       byte
	}{
		{"node name", string(o.Self), visibleFrom},
		{"version", o.Build, printableFrom},
	} {
		if len(s.text) > maxHelloString || !within(s.text, s.from) {
			return fmt.Errorf("%s %q: must be at most %d bytes of printable ASCII", s.what, s.text, maxHelloString)
		}
	}
	switch {
	case o.Self == "":
		return errors.New("node name not set")
	case (o.ServerTLS == nil) != (o.ClientTLS == nil):
		return errors.New("TLS must be set for both directions or neither")
	case o.Handlers[ClassRaft] != nil:
		return errors.New("class raft accepts connections, not calls")
	case o.MaxFrame < 0 || o.MaxFrame > 1<<31-1-frameHeader:
		return fmt.Errorf("invalid frame size %d", o.MaxFrame)
	case o.DeadAfter <= o.KeepAlive:
		return fmt.Errorf("dead-after %s must exceed the ping interval %s", o.DeadAfter, o.KeepAlive)
	case min(o.MaxConnections, o.MaxVisitors, o.MaxVisitorsHost, o.FrameMemory) < 0:
		return errors.New("negative limits")
	case min(o.KeepAlive, o.WriteTimeout, o.BackoffMin, o.DialTimeout, o.HandshakeTimeout) < 0 || o.BackoffMax < o.BackoffMin:
		return errors.New("negative or contradictory timeouts")
	}
	return nil
}

// Network is the interface to the network: TCP, or one in memory in tests.
type Network interface {
	// Dial connects to address from the local host. If local is "" or an unspecified address, it
	// connects from any. If no process listens there, the error wraps syscall.ECONNREFUSED.
	Dial(ctx context.Context, local, address string) (net.Conn, error)
	// Listen starts to accept connections to address.
	Listen(address string) (net.Listener, error)
}

// TCP is the operating system's network.
type TCP struct{}

// Dial connects by TCP.
func (TCP) Dial(ctx context.Context, local, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1} // the protocol has pings of its own
	if local != "" {
		addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(local, "0"))
		if err != nil {
			return nil, err
		}
		if !addr.IP.IsUnspecified() {
			d.LocalAddr = addr
		}
	}
	return d.DialContext(ctx, "tcp", address)
}

// Listen listens by TCP.
func (TCP) Listen(address string) (net.Listener, error) {
	return net.Listen("tcp", address)
}
