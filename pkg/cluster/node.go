package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Node is this node as a member of its cluster. Its methods are safe for concurrent use.
type Node struct {
	calls
	o         Options
	clock     *age.Agreed
	marks     marks
	transport *peer.Transport
	formation *formation.Node
	server    *callServer
	role      *controllerRole
	store     *raftstore.Store // set before Open returns
	start     *datadir.Start
	compared  chan struct{} // closed when the disk was compared: before, the node takes no part in the Raft group

	breakdown breakdown
	work      *tasks
	closing   sync.Once
	closed    error // result of Close
}

// Open makes the node a member of its cluster, with one code path for first start, restart and
// growth, and registers this start. It returns when the local metadata includes that registration,
// which needs a majority of the cluster: it waits until ctx ends. Requests of other nodes are not
// answered before Serve.
func Open(ctx context.Context, o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n := &Node{
		o: o, clock: age.NewAgreed(o.Wall), marks: marks{o.FS, o.DataDir}, breakdown: breakdown{failed: make(chan struct{})},
		compared: make(chan struct{}),
	}
	n.work = newTasks(context.WithoutCancel(ctx))
	n.role = &controllerRole{
		self: o.Self, options: o.Controller, clock: n.clock, observe: o.Observe, proposed: o.Proposed, calls: &n.calls, work: n.work, log: o.Logger,
		suspects: make(chan meta.NodeID, suspectsKept),
	}
	n.server = &callServer{self: o.Self, clock: n.clock, calls: &n.calls, role: n.role, work: n.work, log: o.Logger, requests: make(chan struct{}, maxRequests)}
	n.server.succession = &succession{self: o.Self, store: &n.server.opened, calls: &n.calls, work: n.work, log: o.Logger}
	n.calls = calls{self: o.Self, loop: &line{run: n.work.must}, answer: n.server.handle}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	if err := vfs.MkdirAllSynced(n.o.FS, n.o.DataDir); err != nil {
		return err
	}
	dir := filepath.Join(n.o.DataDir, metaDir)
	if unfinished, err := n.marks.has(markRecovering); unfinished || err != nil {
		return errors.Join(ErrRecoveryUnfinished, err)
	}
	clean, err := n.marks.popClean()
	if err != nil {
		return err
	}
	there, err := raftstore.Exists(dir, n.o.Self)
	if err != nil {
		return err
	}
	if !there {
		if err := n.marks.set(markUnregistered); err != nil {
			return err
		}
	}
	if err := n.begin(); err != nil {
		return err
	}
	if err := n.connect(there); err != nil {
		return err
	}
	n.o.Opening(Lookout{n})
	if n.store, err = n.formation.Start(ctx, func(bootstrap bool) (*raftstore.Store, error) { return n.openStore(dir, bootstrap) }); err != nil {
		return err
	}
	n.work.start(n.compare)
	if err := n.supersededCheck().run(ctx); err != nil {
		if clean { // nothing was changed since
			err = errors.Join(err, n.marks.set(markClean))
		}
		return err
	}
	n.role.store = n.store
	n.server.opened.Store(n.store)
	n.work.start(n.stayMember)
	n.work.start(n.watch)
	n.work.start(func() { n.roster.follow(n.work.ctx, n.store, n.role.changed) })
	r := registration{
		store: n.store, marks: n.marks, breakdown: &n.breakdown, work: n.work, log: n.o.Logger, start: n.start,
		command: meta.NodeStarted{Node: n.o.Node, Unclean: !clean},
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	n.timekeeper().await(ctx)
	return nil
}

// The metadata directory within the data directory, and the prefix of directories with metadata that is outdated.
const (
	metaDir     = "meta"
	outdatedDir = "meta-outdated"
)

// begin records this start in the data directory, so that it can be compared with the one before.
func (n *Node) begin() (err error) {
	var damaged bool
	if n.start, damaged, err = datadir.At(n.o.FS, n.o.DataDir).NewStart(); damaged {
		n.o.Logger.Error("identity of the data directory is corrupt: the directory gets another one, and the cluster does not count on its data", "path", n.o.DataDir)
	}
	return err
}

// compare lets the node take part in the Raft group once its disk was compared.
func (n *Node) compare() {
	switch err := n.formation.Compared(n.work.ctx); {
	case err != nil:
		n.breakdown.fail(err)
	case n.work.ctx.Err() == nil:
		close(n.compared)
	}
}

// setAside moves outdated metadata away.
func (n *Node) setAside() error {
	name, err := datadir.At(vfs.OS{}, n.o.DataDir).Move(filepath.Join(n.o.DataDir, metaDir), n.o.DataDir, outdatedDir)
	if err == nil {
		n.o.Logger.Warn("outdated metadata set aside; remove it once the node has joined", "path", filepath.Join(n.o.DataDir, name))
	}
	return err
}

// connect creates the transport to other nodes, and accepts their connections.
func (n *Node) connect(hasState bool) (err error) {
	o := &n.o
	process := rand.Uint64() | 1 // differs for each process, and is never 0
	options := peer.Options{
		Self: peer.Node(o.Self), Incarnation: process, Build: o.Build, Network: o.Network, LocalAddr: o.LocalAddr, Advertise: o.Address,
		ServerTLS: o.ServerTLS, ClientTLS: o.ClientTLS, Secrets: o.Secrets, FrameMemory: o.FrameMemory,
		ClusterID: func() string { return n.formation.Cluster() },
		Handlers:  map[peer.Class]peer.Handler{peer.ClassReplication: replicationHandler{n.server}, peer.ClassForward: forwardHandler{n.server}, peer.ClassForm: formHandler{n.server}},
		Admit:     n.server.admit, OnEvent: n.server.event,
	}
	if n.transport, err = peer.New(options); err != nil {
		return err
	}
	n.roster = newRoster(o.Self, n.transport, n.work.must)
	n.server.roster, n.role.transport, n.server.succession.transport = n.roster, n.transport, n.transport
	disk, follows := n.start.Disk()
	n.formation = formation.New(formation.Options{
		Disk: &formation.Disk{Disk: disk, Follows: follows, SetAside: n.setAside},
		Node: o.Self, Address: o.Address, Session: process, Join: o.Join, Expect: o.Expect, HasState: hasState,
		JoinToken: o.JoinToken, Call: n.callAddress, Open: o.open, Logger: o.Logger,
	})
	n.server.formation = n.formation
	for _, l := range o.Listeners {
		n.work.start(func() {
			if err := n.transport.Serve(n.work.ctx, l); err != nil { // its owner has closed it, and stops the node
				o.Logger.Info("cluster listener closed", "address", l.Addr().String(), "reason", err)
			}
		})
	}
	return nil
}

func (n *Node) openStore(dir string, bootstrap bool) (*raftstore.Store, error) {
	options := raftstore.Options{
		Dir: dir, NodeID: n.o.Self, Address: n.o.Address, Bootstrap: bootstrap, Logger: n.o.Logger,
		Stream:  &raftstore.Stream{Listener: comparedListener{n.transport.RaftListener(), n}, Dial: n.dialRaft},
		Forward: n.forwardCommand, Ask: n.askStanding, DiskStalled: n.server.stalled.Load, Wall: n.clock.Read,
	}
	if n.o.Store != nil {
		n.o.Store(&options)
	}
	return raftstore.Open(options)
}

// dialRaft is the store's Stream.Dial: it dials the current address of a member.
func (n *Node) dialRaft(ctx context.Context, to meta.NodeID, address string, timeout time.Duration) (net.Conn, error) {
	select {
	case <-n.compared:
	default:
		return nil, errNotCompared
	}
	if address = n.formation.Located(to, address); formation.AddressUnknown(address) {
		return nil, fmt.Errorf("%w: %s", errNoAddress, to)
	}
	return n.transport.DialRaft(ctx, peer.Node(to), address, timeout)
}

// comparedListener refuses the connections of the Raft group until the node's disk was compared.
type comparedListener struct {
	net.Listener
	n *Node
}

// Accept implements net.Listener.
func (l comparedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case <-l.n.compared:
			return c, nil
		default:
			_ = c.Close() // its node dials again
		}
	}
}

// stayMember maintains the node's membership of the Raft group.
func (n *Node) stayMember() {
	if err := n.formation.Run(n.work.ctx); err != nil {
		n.breakdown.fail(n.supersededCheck().explain(n.work.ctx, err))
	}
}

// Serve starts answering requests of other nodes, and lets this node become the controller. It
// must be called once.
func (n *Node) Serve(h Handlers) {
	n.server.handlers.Store(&h)
	n.work.start(func() {
		warnOfTwo(n.work.ctx, n.o.Logger, func() []meta.NodeID { return n.Members().Voters() })
	})
	n.work.start(n.role.lead)
	n.work.start(func() {
		tellHeadless(n.work.ctx, n.o.Logger, n.store, func() []string { return silentVoters(n.Members(), n.o.Self, n.Answers) })
	})
	for id := range *n.roster.members.Load() {
		if id != n.o.Self {
			n.Go(id, kindHere, nil, func([]byte, error) {}) // nodes that miss it retry soon
		}
	}
}

// Store returns the metadata on this node.
func (n *Node) Store() *raftstore.Store { return n.store }

// Peers returns how replicas reach those on other nodes.
func (n *Node) Peers() coord.Peers { return n.roster }

// Members returns the members of the metadata's Raft group.
func (n *Node) Members() raftstore.Configuration { return n.store.Members().Configuration() }

// Answers reports whether there is a connection to another node.
func (n *Node) Answers(id meta.NodeID) bool { return n.roster.answers(id) }

// OtherClusters returns the join addresses that belong to another cluster than the node.
func OtherClusters(n *Node) []string { return formation.OtherClusters(n.formation) }

// PortOpen reports whether any process that reaches the cluster port of a node could join as a node.
func PortOpen(n *Node) bool { return n.o.open() }

// UnreachedBy returns the members without a vote that do not answer a node that leads the metadata.
func UnreachedBy(n *Node) []formation.Unreached { return formation.UnreachedBy(n.formation) }

// Lookout observes a Node while it is being opened. Its methods are safe for concurrent use,
// also after Open has returned.
type Lookout struct{ n *Node }

// Store returns the metadata, which may have no leader yet; nil: it is not open.
func (l Lookout) Store() *raftstore.Store { return l.n.server.opened.Load() }

// Answers reports whether there is a connection to another node.
func (l Lookout) Answers(id meta.NodeID) bool { return l.n.Answers(id) }

// Waiting returns what the node waits for before it can open its metadata; "" if nothing.
func (l Lookout) Waiting() string { return l.n.formation.Waiting() }

// Awaited returns the nodes that belong to the cluster which this node is bootstrapping, and have
// not joined it yet.
func (l Lookout) Awaited() []meta.NodeID { return formation.Awaited(l.n.formation) }

// Controller returns the last decision of the controller that was carried out or whose troubles
// had changed, while this node is the controller.
func (n *Node) Controller() (controller.Decision, bool) {
	if d := n.role.decision.Load(); d != nil {
		return *d, true
	}
	return controller.Decision{}, false
}

// Traffic returns the traffic with other nodes since Open.
func (n *Node) Traffic() []peer.Stats { return n.transport.Stats() }

// Failed is closed when the node cannot continue: the metadata store failed, its disk has stalled,
// or the node was removed from the cluster. Err returns the reason.
func (n *Node) Failed() <-chan struct{} { return n.breakdown.failed }

// Err returns why the node cannot continue, or nil.
func (n *Node) Err() error { return n.breakdown.cause() }

// StopClean is Close for a node that has stopped cleanly: everything acknowledged is on disk,
// which is recorded for the next start. The controller role is transferred first.
func (n *Node) StopClean() error {
	ctx, cancel := context.WithTimeout(n.work.ctx, transferTimeout)
	n.server.handlers.Store(nil) // the node no longer counts as serving
	if n.store.IsLeader() && len(n.Members().Voters()) > 1 {
		if err := n.store.Members().Transfer(ctx); err != nil {
			n.o.Logger.Info("cannot transfer the controller role before the stop; the other nodes elect a controller once they notice the stop", "error", err)
		}
	}
	cancel()
	if err := n.Close(); err != nil {
		return err
	}
	if n.Err() != nil {
		return nil // the state on disk is unknown
	}
	return n.marks.set(markClean)
}

// Close stops the node and returns when everything has stopped. It is idempotent. The listener
// is closed first, so that other nodes notice. If the disk is stalled, Close does not wait for
// it: it returns ErrStalled, and the process should exit.
func (n *Node) Close() error {
	n.closing.Do(func() {
		n.server.handlers.Store(nil)
		n.work.cancel(errClosed)
		for _, l := range n.o.Listeners {
			_ = l.Close() // the transport also closes those that it serves
		}
		var errs []error
		if n.transport != nil {
			errs = append(errs, n.transport.Close())
		}
		n.closed = errors.Join(append(errs, n.closeStore())...)
		if !errors.Is(n.closed, ErrStalled) {
			n.work.wait()
		}
	})
	return n.closed
}

func (n *Node) closeStore() error {
	if n.store == nil {
		return nil
	}
	closed := make(chan error, 1)
	go func() { closed <- n.store.Close() }()
	for waited := time.Duration(0); ; waited += watchEvery {
		select {
		case err := <-closed:
			return err
		case <-time.After(watchEvery):
			if waited >= raftstore.StallLimit || errors.Is(n.Err(), ErrStalled) {
				return fmt.Errorf("close metadata: %w", ErrStalled)
			}
		}
	}
}

// Clock returns the time on which the nodes of the cluster agree.
func (n *Node) Clock() *age.Agreed { return n.clock }

func (n *Node) timekeeper() *timekeeper {
	return &timekeeper{clock: n.clock, store: n.store, log: n.o.Logger}
}

// watch ends the node when its metadata cannot continue. A disk counts as stalled when the same
// write is observed repeatedly: with the clock alone, a process that was stopped for a while would
// detect a stall.
func (n *Node) watch() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var seen time.Time // start of the write observed last
	clock := n.timekeeper()
	times := 0
	for {
		tick.Reset(beat.Until(time.Now(), watchEvery))
		select {
		case <-n.store.Failed():
			n.breakdown.fail(n.store.Err())
			return
		case <-tick.C:
			clock.watch()
			began, writing := n.store.Writing()
			if times++; !writing || !began.Equal(seen) {
				seen, times = began, 0
			}
			unanswered := time.Duration(times) * watchEvery
			n.server.diskSilent(max(n.o.DiskSilent(), unanswered), n.o.DiskTimeout)
			if unanswered >= raftstore.StallLimit {
				n.breakdown.fail(fmt.Errorf("%w: a write has been in progress for %v", ErrStalled, time.Since(began).Round(time.Second)))
				return
			}
		case <-n.work.ctx.Done():
			return
		}
	}
}
