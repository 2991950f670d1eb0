package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/controller"
	"github.com/brokerd/brokerd/pkg/coord/formation"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Node is this node as a member of its cluster. Its methods may be called by
// many goroutines.
type Node struct {
	o         Options
	marks     marks
	transport *peer.Transport
	roster    *roster
	formation *formation.Node
	store     *raftstore.Store                // set before Open returns
	opened    atomic.Pointer[raftstore.Store] // the store, for whoever asks earlier
	loop      *line                           // for calls to this node itself

	handlers atomic.Pointer[Handlers] // nil: does not serve
	requests chan struct{}            // holds one for each request that is worked on
	decision atomic.Pointer[controller.Decision]
	suspects chan meta.NodeID // for the controller to look at
	alarm    signal           // the connection to a member broke
	rejected complaints

	failure failure
	work    tasks
	closing sync.Once
	closed  error // of the closing
}

// Open brings the node into its cluster, with one call for first start, restart
// and growth, and registers this start. It returns when the metadata here is at
// least at that registration, which needs a majority of the cluster: it waits for
// as long as ctx lets it. Other nodes' requests are not answered before Serve.
func Open(ctx context.Context, o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n := &Node{
		o: o, marks: marks{o.FS, o.DataDir},
		requests: make(chan struct{}, maxRequests), suspects: make(chan meta.NodeID, suspectsKept),
		failure: failure{failed: make(chan struct{})}, alarm: signal{ch: make(chan struct{})},
	}
	n.work.ctx, n.work.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	n.loop = &line{run: n.work.must}
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
	clean, err := n.marks.take()
	if err != nil {
		return err
	}
	there, err := raftstore.Exists(dir, n.o.Self)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if !there {
		if err := n.marks.set(markUnregistered); err != nil {
			return err
		}
	}
	if err := n.connect(there); err != nil {
		return err
	}
	if n.store, err = n.formation.Start(ctx, func(bootstrap bool) (*raftstore.Store, error) { return n.openStore(dir, bootstrap) }); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	n.opened.Store(n.store)
	n.work.start(n.stayMember)
	n.work.start(n.watch)
	n.work.start(func() { n.roster.follow(n.work.ctx, n.store) })
	return n.register(ctx, !clean)
}

// metaDir is where the metadata is, in the data directory.
const metaDir = "meta"

// connect makes what other nodes are reached through, and lets them reach this
// one.
func (n *Node) connect(hasState bool) (err error) {
	o := &n.o
	process := rand.Uint64() | 1 // another one for each process, and never 0
	options := peer.Options{
		Self: peer.Node(o.Self), Incarnation: process, Build: o.Build, Network: o.Network, LocalAddr: o.LocalAddr, Advertise: o.Address,
		ServerTLS: o.ServerTLS, ClientTLS: o.ClientTLS,
		ClusterID: func() string { return n.formation.Cluster() },
		Handlers:  map[peer.Class]peer.Handler{peer.ClassReplication: replicationHandler{n}, peer.ClassForward: forwardHandler{n}},
		Admit:     n.admit, OnEvent: n.event,
	}
	if o.Transport != nil {
		o.Transport(&options)
	}
	if n.transport, err = peer.New(options); err != nil {
		return err
	}
	n.roster = newRoster(o.Self, n.transport, n.work.must)
	n.formation = formation.New(formation.Options{
		Node: o.Self, Address: o.Address, Session: process, Join: o.Join, Expect: o.Expect, HasState: hasState,
		Call: n.callAddress, Logger: o.Logger,
	})
	for _, l := range o.Listeners {
		n.work.start(func() {
			if err := n.transport.Serve(n.work.ctx, l); err != nil {
				n.failure.fail(fmt.Errorf("cluster address %s: %w", l.Addr(), err))
			}
		})
	}
	return nil
}

func (n *Node) openStore(dir string, bootstrap bool) (*raftstore.Store, error) {
	options := raftstore.Options{
		Dir: dir, NodeID: n.o.Self, Address: n.o.Address, Bootstrap: bootstrap, Logger: n.o.Logger,
		Stream:  &raftstore.Stream{Listener: n.transport.RaftListener(), Dial: n.transport.DialRaft},
		Forward: n.forwardCommand,
	}
	if n.o.Store != nil {
		n.o.Store(&options)
	}
	return raftstore.Open(options)
}

// stayMember keeps the node's place in the agreement.
func (n *Node) stayMember() {
	if err := n.formation.Run(n.work.ctx); err != nil {
		n.failure.fail(fmt.Errorf("metadata: %w", err))
	}
}

// Serve has other nodes' requests answered from now on, and lets this node become
// the controller. It is called once.
func (n *Node) Serve(h Handlers) {
	n.handlers.Store(&h)
	n.work.start(n.lead)
	for id := range *n.roster.members.Load() {
		if id != n.o.Self {
			n.Go(id, kindHere, nil, func([]byte, error) {}) // whoever does not hear it tries again soon
		}
	}
}

// Store returns the metadata on this node.
func (n *Node) Store() *raftstore.Store { return n.store }

// Peers returns how replicas reach those on other nodes.
func (n *Node) Peers() coord.Peers { return n.roster }

// Members returns who takes part in the agreement on the metadata.
func (n *Node) Members() raftstore.Configuration { return n.store.Members().Configuration() }

// Traffic returns the traffic with other nodes since Open.
func (n *Node) Traffic() []peer.Stats { return n.transport.Stats() }

// Failed is closed when the node cannot go on: the metadata's store failed, its
// disk hangs, or the node was removed from the cluster. Err says which.
func (n *Node) Failed() <-chan struct{} { return n.failure.failed }

// Err returns why the node cannot go on, or nil.
func (n *Node) Err() error { return n.failure.cause() }

// StopClean is Close for a node that has stopped in order: all that it
// acknowledged is on disk, and that is noted for the next start. The controller's
// part is handed to another node first.
func (n *Node) StopClean() error {
	ctx, cancel := context.WithTimeout(n.work.ctx, transferTimeout)
	n.handlers.Store(nil) // nobody believes any more that it is there to stay
	if n.store.IsLeader() && len(n.Members().Voters()) > 1 {
		if err := n.store.Members().Transfer(ctx, ""); err != nil {
			n.o.Logger.Info("the controller's part is not handed over", "error", err)
		}
	}
	cancel()
	if err := n.Close(); err != nil {
		return err
	}
	if n.Err() != nil {
		return nil // what is on disk is not known
	}
	return n.marks.set(markClean)
}

// Close leaves the cluster's work and returns when all is still. It may be called
// again.
func (n *Node) Close() error {
	n.closing.Do(func() {
		n.handlers.Store(nil)
		n.work.cancel(ErrClosed)
		var errs []error
		if n.store != nil {
			errs = append(errs, n.store.Close())
		}
		if n.transport != nil {
			errs = append(errs, n.transport.Close())
		}
		for _, l := range n.o.Listeners {
			_ = l.Close() // the transport has closed those that it served
		}
		n.work.wait()
		n.closed = errors.Join(errs...)
	})
	return n.closed
}

// watch ends the node when its metadata cannot go on.
func (n *Node) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.store.Failed():
			n.failure.fail(fmt.Errorf("metadata: %w", n.store.Err()))
			return
		case <-tick.C:
			if d := n.store.Stalled(); d > raftstore.StallLimit {
				n.failure.fail(fmt.Errorf("%w: a write has been under way for %v", ErrStalled, d.Round(time.Second)))
				return
			}
		case <-n.work.ctx.Done():
			return
		}
	}
}

// failure keeps why the node cannot go on.
type failure struct {
	mu     sync.Mutex // guards err
	err    error
	failed chan struct{} // closed when err is set
}

// fail sets the cause; the first one stays.
func (f *failure) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.failed)
	}
}

func (f *failure) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// signal tells any number of waiters that something happened.
type signal struct {
	mu sync.Mutex    // guards ch
	ch chan struct{} // closed, and replaced, each time
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

// tasks are the goroutines of a Node.
type tasks struct {
	ctx    context.Context // ends when they are to end
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards over, and that nothing is added after it
	over    bool
	running sync.WaitGroup
}

// start runs f unless the Node is closed, and reports whether it does.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.running.Go(f)
	return true
}

// must runs f, which is short, even when the Node is closed: somebody waits for
// what it tells.
func (t *tasks) must(f func()) {
	if !t.start(f) {
		go f()
	}
}

// wait returns when none is running, and lets none start.
func (t *tasks) wait() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.running.Wait()
}
