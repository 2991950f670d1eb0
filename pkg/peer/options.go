package peer

import (
	"cmp"
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
	DefaultVisitTimeout     = 10 * time.Second
	DefaultHandshakeTimeout = 2 * time.Second
	DefaultDialTimeout      = 2 * time.Second
	DefaultWriteTimeout     = 10 * time.Second
	DefaultKeepAlive        = 800 * time.Millisecond
	DefaultDeadAfter        = 3 * time.Second
	DefaultBackoffFirst     = 20 * time.Millisecond
	DefaultBackoffLast      = time.Second
)

// Handler takes the calls of one class. Handle is called by the goroutine that
// reads a connection, in the order in which the calls of that session were made;
// calls of other sessions come at the same time. It must not block. payload is
// valid until it returns. reply must be called exactly once, by any goroutine
// and at any time; its payload must not be changed after that. An error other
// than a *RemoteError travels as one with code 0.
type Handler interface {
	Handle(from Node, session uint64, kind uint8, payload []byte, reply func(payload [][]byte, err error))
}

// Gatherer is a connection that keeps back what is sent between Hold and Release, to send it
// together. It may be used by many goroutines, and calls may be nested. What is kept back for long, or
// is much, is sent all the same.
type Gatherer interface {
	Hold()
	Release()
}

// GatheringHandler is a Handler whose answers may gather. Its HandleBy is called instead of Handle,
// by the same rules. by is the connection of the call.
type GatheringHandler interface {
	Handler
	HandleBy(by Gatherer, from Node, session uint64, kind uint8, payload []byte, reply func(payload [][]byte, err error))
}

// Options say who a Transport is and how it behaves. Self is needed; the rest
// has defaults.
type Options struct {
	Self        Node
	ClusterID   func() string // "": not formed yet; nil: never formed
	Incarnation uint64        // of this process: another at every start
	Build       string        // version of the software, for people
	Features    uint64        // bits that both sides must have to count
	Network     Network       // nil: TCP
	LocalAddr   string        // host that connections are made from; "": any
	Advertise   string        // host:port by which others reach this node: RaftListener's Addr

	// ServerTLS and ClientTLS return what the next handshake uses; they are asked
	// every time, so certificates may change. Both or neither must be given.
	ServerTLS, ClientTLS func() *tls.Config

	// Secrets returns what both ends of a connection must have, beside TLS or without
	// it, except for pings; it is asked every time. This side shows the first and
	// takes any. nil, or none: nothing is asked for.
	Secrets func() [][]byte

	// Handlers take the calls of each class. Raft has none.
	Handlers map[Class]Handler
	// RaftConn takes a connection of class Raft, which is its to close. nil: they
	// come out of RaftListener.
	RaftConn func(net.Conn)
	// Admit decides about a node that introduced itself properly, except for
	// pings; for class formation it must not ask whether it is a member. nil:
	// everybody is admitted. It must not block.
	Admit func(*Hello) Reason
	// OnEvent is told what happens to connections, by many goroutines at once. It
	// must not block.
	OnEvent func(Event)

	MaxFrame       int // bytes of a payload; 0: limit.Sizes.Frame
	MaxQueuedBytes int // waiting to be written to one connection; with less it takes one more frame of any size. Class replication has room for MaxFrame in addition.
	MaxCalls       int // of one Peer without an answer
	MaxConnections int // of members, that they made to this node
	// MaxVisitors are the connections at once whose other end has not introduced
	// itself, or is of a class that is for everybody; MaxVisitorsHost of one host.
	MaxVisitors, MaxVisitorsHost int
	// FrameMemory bounds what frames over largeChunk take in all while they are
	// read, in bytes. A connection waits for its turn, and one alone always gets it.
	FrameMemory int

	HandshakeTimeout time.Duration // TLS and hellos
	DialTimeout      time.Duration // until TCP stands
	VisitTimeout     time.Duration // of a connection of a class that is for everybody
	WriteTimeout     time.Duration // for a megabyte
	KeepAlive        time.Duration // between pings, which the side sends that has dialed
	DeadAfter        time.Duration // without a byte received
	BackoffMin       time.Duration // before the second attempt to connect
	BackoffMax       time.Duration
}

// withDefaults returns the options with everything set.
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
	o.VisitTimeout = cmp.Or(o.VisitTimeout, DefaultVisitTimeout)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, DefaultWriteTimeout)
	o.KeepAlive = cmp.Or(o.KeepAlive, DefaultKeepAlive)
	o.DeadAfter = cmp.Or(o.DeadAfter, DefaultDeadAfter)
	o.BackoffMin = cmp.Or(o.BackoffMin, DefaultBackoffFirst)
	o.BackoffMax = cmp.Or(o.BackoffMax, DefaultBackoffLast)
	return o
}

// maxVisitorFrame bounds a payload of the classes that are for everybody: formation's
// requests are a few lines of JSON.
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

// secrets returns what is asked of a connection of a class; none: nothing.
func (o *Options) secrets(c Class) [][]byte {
	if o.Secrets == nil || c == ClassPing {
		return nil
	}
	return o.Secrets()
}

// queue returns how many bytes of calls may wait for one connection, before one more.
// Replicators limit what they send to limit.Sizes.Pair, which they exceed by less than
// one frame: this must not fill the queue.
func (o *Options) queue(c Class) int {
	if c == ClassReplication {
		return o.MaxQueuedBytes + o.MaxFrame
	}
	return o.MaxQueuedBytes
}

// validate refuses what cannot work. It is for options with defaults.
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
	case min(o.KeepAlive, o.VisitTimeout, o.WriteTimeout, o.BackoffMin, o.DialTimeout, o.HandshakeTimeout) < 0 || o.BackoffMax < o.BackoffMin:
		return errors.New("negative or contradictory timeouts")
	}
	return nil
}
