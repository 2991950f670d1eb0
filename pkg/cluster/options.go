package cluster

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Fixed limits and durations.
const (
	registerAgain   = 100 * time.Millisecond // between attempts to register a start
	requestTimeout  = 10 * time.Second       // of another node's request to this package
	maxRequests     = 1024                   // of those, at a time
	watchEvery      = 400 * time.Millisecond
	transferTimeout = 2 * time.Second // for another node to take over the controller role
	yieldAgain      = time.Second     // after a transfer that had no effect
	// yieldFirst is how long a new controller keeps the role although its disk is slow or voters do not
	// respond. If all disks or links are bad, the role would go in circles.
	yieldFirst            = 10 * time.Second
	proposeTimeout        = 2 * time.Second // of the controller's commands
	leaderTransferTimeout = 1500 * time.Millisecond
	leaderTransferLimit   = 64 // leaders asked at a time
	// leaderTransferGiveUp is how long a leader is asked again that does not answer, or refuses for what
	// should be over in a moment, before it is deposed.
	leaderTransferGiveUp = 10 * time.Second
	askAgain             = 50 * time.Millisecond // between requests for graceful transfers that have no effect
)

// DefaultDiskTimeout is the default of Options.DiskTimeout.
const DefaultDiskTimeout = 2 * time.Second

// Options identify a node and how it finds the others. Self and DataDir are required.
type Options struct {
	Self    meta.NodeID
	DataDir string // the metadata is in its subdirectory meta
	// Address is the host:port that other nodes dial; "" for a node that stays alone.
	Address string
	// Listeners accept connections of other nodes. They are closed with the Node.
	Listeners []net.Listener
	// LocalAddr is the host from which connections are made; "": any.
	LocalAddr string
	// Join are cluster addresses of nodes, possibly including this one's own. Expect is how
	// many of them bootstrap a cluster once they see each other; 1 without Join: a single-node
	// cluster; 0: only join.
	Join   []string
	Expect int
	// Build is the version of the program, for display.
	Build string
	// Node is the registration of this node. Its ID, ClusterAddress, State, Incarnation, Intent
	// and Levels are filled in.
	Node meta.Node
	// Network is how nodes reach each other; nil: TCP.
	Network peer.Network
	// ServerTLS and ClientTLS are called for each connection; both or none.
	ServerTLS, ClientTLS func() *tls.Config
	// Secrets returns the accepted cluster secrets; see peer.Options. nil: no secret is
	// required.
	Secrets func() [][]byte
	// JoinToken returns the join token of this node; see formation.Options. nil: it has none.
	JoinToken func() (string, error)
	// FrameMemory bounds the memory of large frames being read from other nodes, in bytes; 0:
	// peer's default.
	FrameMemory int
	// Controller holds the limits of the controller.
	Controller controller.Options
	// Store may change the options of the metadata store; optional.
	Store func(*raftstore.Options)
	// DiskSilent, if set, returns for how long the disk of the node's partitions has not responded. It
	// must not block. Once that, or a write to the metadata, has taken half of DiskTimeout (0:
	// DefaultDiskTimeout), the node transfers the controller role, unless it has just received it. After DiskTimeout it tells the
	// controller that it does not serve, so that other nodes take over its partitions, and sends no
	// heartbeats as the controller.
	DiskSilent  func() time.Duration
	DiskTimeout time.Duration
	// Wall returns the reading of this node's wall clock at a moment that was just read, in ns since 1970; nil:
	// the system's.
	Wall   func(now time.Time) int64
	FS     vfs.FS       // for the marks in DataDir; nil: the operating system's
	Logger *slog.Logger // optional
	// Opening, if set, receives a Lookout while Open waits for other nodes. It is called once
	// and must not block.
	Opening func(Lookout)
	// Observe is called with each decision of the controller that is carried out, and with each
	// whose troubles changed. It must not block.
	Observe func(controller.Decision)
	// Proposed, if set, is called with each committed command of the controller. It must not
	// block.
	Proposed func(meta.Command, meta.Result)
}

func (o Options) withDefaults() Options {
	o.Address = cmp.Or(o.Address, string(o.Self))
	o.FS = cmp.Or[vfs.FS](o.FS, vfs.OS{})
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Opening == nil {
		o.Opening = func(Lookout) {}
	}
	o.DiskTimeout = cmp.Or(o.DiskTimeout, DefaultDiskTimeout)
	if o.DiskSilent == nil {
		o.DiskSilent = func() time.Duration { return 0 }
	}
	if o.Observe == nil {
		o.Observe = func(controller.Decision) {}
	}
	if o.Proposed == nil {
		o.Proposed = func(meta.Command, meta.Result) {}
	}
	o.Node.Levels = level.Supported()
	o.Node.ID, o.Node.ClusterAddress, o.Node.State = o.Self, cmp.Or(o.Node.ClusterAddress, o.Address), meta.NodeUp
	return o
}

// open reports whether any process that reaches the cluster port could join: see formation.Options.
func (o *Options) open() bool {
	return len(o.Listeners) > 0 && o.ServerTLS == nil && (o.Secrets == nil || len(o.Secrets()) == 0)
}

func (o *Options) validate() error {
	switch {
	case !meta.ValidNodeID(o.Self):
		return fmt.Errorf("%w: node %q", failure.InvalidName, o.Self)
	case o.DataDir == "":
		return errors.New("data directory not set")
	case o.Expect > 1 && len(o.Join) == 0:
		return fmt.Errorf("bootstrap-expect %d needs addresses to join", o.Expect)
	}
	return nil
}

// Handlers handle calls of other nodes. They are called on the goroutines that read connections
// and must not block; reply is called once, from any goroutine. The handler owns payload.
type Handlers struct {
	// Replicate handles requests of partition leaders; optional. by is the connection, in which
	// answers may gather.
	Replicate func(by vfs.Gatherer, from meta.NodeID, kind uint8, payload []byte, reply func([]byte))
	// Forward handles client requests forwarded by other nodes, of the kinds of package
	// forward. A session is one connection of that node.
	Forward func(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error))
	// ForwardDown reports the end of such a session: no more requests follow.
	ForwardDown func(from meta.NodeID, session uint64)
}

// Errors of this package.
var (
	// ErrStalled: a write to the metadata disk has stalled.
	ErrStalled = errors.New("metadata disk stalled")
	// errClosed: the Node is closed. Refused.
	errClosed = fate.Refuse("cluster node closed")

	// errNotCompared: the node has not compared its disk yet. Refused.
	errNotCompared = fate.Refuse("data directory not compared with the cluster yet")

	errNoAddress = fate.Refuse("member's address is in use by another node")
	errNoSession = fate.Refuse("not connected to the node")
	errUnknown   = fate.Refuse("unknown cluster call")
)
