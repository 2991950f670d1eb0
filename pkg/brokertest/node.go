package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Timeouts for a node.
const (
	startTimeout = 60 * time.Second
	readyPoll    = 5 * time.Millisecond
	bindPoll     = 10 * time.Millisecond
)

// nsqVersion is the release of nsqd that is reported to clients, as in brokerd.
const nsqVersion = "1.3.0"

// Node is a node running in the test process. Its methods must be called from the test's
// goroutine and fail the test on error.
type Node struct {
	t      testing.TB
	o      options
	id     string
	join   []string // cluster addresses of all nodes; none: it is alone
	disk   vfs.FS   // of its messages, whatever happens to it
	listen config.Listen
	life   *life // nil: it does not run
}

// life is a node from one start to its end.
type life struct {
	node   *node.Node
	gate   *gate
	disk   *disk
	served chan error // gets what Serve returned
}

// ID returns the name of the node in its cluster.
func (n *Node) ID() string { return n.id }

// Addr returns the host:port that NSQ clients connect to.
func (n *Node) Addr() string { return n.listen.TCP }

// URL returns the base of the HTTP interfaces: nsqd's, nsqlookupd's and /v1.
func (n *Node) URL() string { return "http://" + n.listen.HTTP }

// Running reports whether the node runs, paused or not.
func (n *Node) Running() bool { return n.life != nil }

// Stop stops the node cleanly: it transfers its leaderships and sends pending answers to
// clients.
func (n *Node) Stop() {
	n.t.Helper()
	l := n.end("Stop")
	l.gate.reopen()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.node.Drain(ctx); err != nil {
		n.o.log.Warn("drain incomplete", "node", n.id, "error", err)
	}
	if err := l.node.Close(); err != nil {
		n.t.Errorf("brokertest: stop node %s: %v", n.id, err)
	}
	if err := <-l.served; err != nil {
		n.t.Errorf("brokertest: node %s: %v", n.id, err)
	}
}

// Kill stops the node like kill -9: its connections break, no leadership is transferred, and
// nothing more is written. Data written before is available after Restart.
func (n *Node) Kill() {
	n.t.Helper()
	l := n.end("Kill")
	l.gate.shut()
	l.disk.unplug()
	l.gate.cut()
	if err := l.node.Abort(); err != nil {
		n.o.log.Info("killed", "node", n.id, "error", err)
	}
	if err := <-l.served; err != nil {
		n.o.log.Info("killed while serving", "node", n.id, "error", err)
	}
}

// Pause blocks all traffic of the node while its connections stay open, like a hanging machine.
// Clients and other nodes notice by their timeouts.
func (n *Node) Pause() {
	n.t.Helper()
	if n.life == nil {
		n.t.Fatalf("brokertest: Pause: node %s does not run", n.id)
	}
	n.life.gate.shut()
}

// Resume ends a Pause; blocked traffic is delivered.
func (n *Node) Resume() {
	n.t.Helper()
	if n.life == nil {
		n.t.Fatalf("brokertest: Resume: node %s does not run", n.id)
	}
	n.life.gate.reopen()
}

// Restart starts a stopped or killed node with its data and addresses, and waits until it
// serves.
func (n *Node) Restart() {
	n.t.Helper()
	if n.life != nil {
		n.t.Fatalf("brokertest: Restart: node %s runs", n.id)
	}
	n.start()
}

func (n *Node) end(what string) *life {
	n.t.Helper()
	l := n.life
	if l == nil {
		n.t.Fatalf("brokertest: %s: node %s does not run", what, n.id)
	}
	n.life = nil
	return l
}

// start opens the node and waits until it serves.
func (n *Node) start() {
	n.t.Helper()
	startAll(n.t, []*Node{n})
}

// startAll starts nodes at the same time: members of a new cluster wait for each other.
func startAll(t testing.TB, nodes []*Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { n.life, errs[i] = n.open(ctx) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("brokertest: start node %s: %v", nodes[i].id, err)
		}
	}
	for _, n := range nodes {
		if err := n.life.untilReady(ctx); err != nil {
			t.Fatalf("brokertest: node %s is not ready: %v", n.id, err)
		}
	}
}

// open opens the node at its addresses. While it did not run, the system may have given a port of it to another
// program, such as another test: it waits until that one has closed it.
func (n *Node) open(ctx context.Context) (*life, error) {
	tick := time.NewTicker(bindPoll)
	defer tick.Stop()
	for {
		ls, err := node.Bind(ctx, n.listen)
		if err == nil {
			return n.openAt(ctx, ls)
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

func (n *Node) openAt(ctx context.Context, ls *node.Listeners) (*life, error) {
	o, err := n.settings()
	if err != nil {
		ls.Close()
		return nil, err
	}
	l := &life{gate: newGate(), disk: newDisk(n.disk), served: make(chan error, 1)}
	ls.WrapClients(l.gate.listener, l.gate.listener)
	for i, c := range ls.Cluster {
		ls.Cluster[i] = l.gate.listener(c)
	}
	l.node, err = node.Open(ctx, node.Config{
		Options: o, Advertise: node.Advertised(o.Advertise, ls, "localhost"), Listeners: ls, TLS: n.o.tls, Network: gatedNetwork{gate: l.gate},
		Disk: l.disk.topics, MetaFS: l.disk.marks, Log: n.o.log.With("node", n.id), Version: nsqVersion,
		Lookupds: &node.Lookupds{}, Level: new(slog.LevelVar),
	})
	if err != nil {
		ls.Close()
		return nil, err
	}
	go func() { l.served <- l.node.Serve() }()
	return l, nil
}

// settings returns the configuration of the node.
func (n *Node) settings() (config.Options, error) {
	var set []config.Assignment
	for name, value := range n.o.settings {
		set = append(set, config.Assignment{Key: name, Value: value, Where: "brokertest.Set: ", Quote: name})
	}
	loaded, err := config.Resolve(n.id, nil, set)
	o := loaded.Options
	o.NodeID, o.DataDir, o.Listen = n.id, filepath.Join(n.o.dir, n.id), n.listen
	if len(n.join) > 0 {
		o.Cluster.Join, o.Cluster.BootstrapExpect = n.join, len(n.join)
	}
	return o, err
}

// untilReady waits until the node can serve everything.
func (l *life) untilReady(ctx context.Context) error {
	select {
	case <-l.node.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for len(l.node.Broker().Node.Ready()) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// untilAllVote waits until n nodes have a vote: without that the others may have no majority when one fails.
func (l *life) untilAllVote(ctx context.Context, n int) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		voters := 0
		for _, m := range l.node.Broker().Operator.Cluster().Nodes {
			if m.Voter {
				voters++
			}
		}
		if voters >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// bindAny listens at ports that the system picks and returns where.
func bindAny(ctx context.Context) (*node.Listeners, config.Listen, error) {
	const any = "127.0.0.1:0"
	ls, err := node.Bind(ctx, config.Listen{TCP: any, HTTP: any, Cluster: any})
	if err != nil {
		return nil, config.Listen{}, err
	}
	at := func(bound []net.Listener) string { return bound[0].Addr().String() }
	return ls, config.Listen{TCP: at(ls.TCP), HTTP: at(ls.HTTP), Cluster: at(ls.Cluster)}, nil
}

// Nodes are the nodes of one cluster.
type Nodes []*Node

// Addrs returns the addresses that NSQ clients connect to.
func (ns Nodes) Addrs() []string {
	var all []string
	for _, n := range ns {
		all = append(all, n.Addr())
	}
	return all
}

// Named returns the node with an id, as used in the metadata and /v1.
func (ns Nodes) Named(id string) *Node {
	if i := slices.IndexFunc(ns, func(n *Node) bool { return n.id == id }); i >= 0 {
		return ns[i]
	}
	return nil
}
