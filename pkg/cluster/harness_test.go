package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a number of nodes in one process, in virtual time, on one network, started with the same
// command line. The host of a node is its name.
type world struct {
	t       *testing.T
	net     *peertest.Network
	dir     string
	join    []string
	expect  int
	options func(name string, o *Options)              // last changes; nil: none
	hosts   map[string]string                          // hosts of nodes that are not at the host of their name
	operate func(self string, o forward.Operate) error // how operations are handled; nil: they are refused

	mu   sync.Mutex // guards runs
	runs map[string]*process
}

// process is one run of a node.
type process struct {
	name   string
	ctx    context.Context // of Open
	stop   context.CancelFunc
	opened chan struct{}    // closed when Open has returned
	node   *Node            // nil: Open failed
	err    error            // of Open
	down   chan meta.NodeID // peers whose sessions ended
}

func inWorld(t *testing.T, join []string, expect int, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: peertest.NewNetwork(), dir: dir, expect: expect, runs: map[string]*process{}}
		for _, name := range join {
			w.join = append(w.join, addressOf(name))
		}
		defer func() {
			for _, name := range w.names() {
				w.kill(name)
			}
		}()
		test(t, w)
	})
}

func addressOf(name string) string { return name + ":1" }

func (w *world) names() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.runs {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (w *world) process(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[name]
}

// node returns the open node with the given name.
func (w *world) node(name string) *Node {
	w.t.Helper()
	p := w.process(name)
	<-p.opened
	if p.err != nil {
		w.t.Fatalf("%s: %v", name, p.err)
	}
	return p.node
}

// start runs a node in the directory of its name.
func (w *world) start(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.startIn(name, filepath.Join(w.dir, name))
	}
}

// host returns the host of a node.
func (w *world) host(name string) string {
	if host := w.hosts[name]; host != "" {
		return host
	}
	return name
}

func (w *world) startIn(name, dir string) *process {
	w.t.Helper()
	address := addressOf(w.host(name))
	l, err := w.net.Listen(address)
	if err != nil {
		w.t.Fatal(err)
	}
	o := Options{
		Self: meta.NodeID(name), DataDir: dir, Address: address, Listeners: []net.Listener{l}, LocalAddr: w.host(name),
		Join: w.join, Expect: w.expect, Build: "test", Node: meta.Node{BootID: "boot"}, Network: w.net,
		Store: func(o *raftstore.Options) { o.ReserveBytes = -1 },
	}
	if w.options != nil {
		w.options(name, &o)
	}
	p := &process{name: name, opened: make(chan struct{}), down: make(chan meta.NodeID, 1024)}
	p.ctx, p.stop = context.WithCancel(w.t.Context())
	w.mu.Lock()
	w.runs[name] = p
	w.mu.Unlock()
	go func() {
		defer close(p.opened)
		if p.node, p.err = Open(p.ctx, o); p.err == nil {
			p.node.Serve(w.handlers(p))
		}
	}()
	return p
}

// handlers answer every request with its content and sender.
func (w *world) handlers(p *process) Handlers {
	return Handlers{
		Replicate: func(_ vfs.Gatherer, from meta.NodeID, kind uint8, payload []byte, reply func([]byte)) {
			reply(fmt.Appendf(nil, "%s %d %s", from, kind, payload))
		},
		Forward: func(from meta.NodeID, _ uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
			if kind == forward.KindOperate && w.operate == nil {
				reply(nil, forward.ToRemote(errors.New("not today")))
				return
			}
			if kind == forward.KindOperate {
				go func() {
					var o forward.Operate
					err := o.Decode(payload)
					if err == nil {
						err = w.operate(p.name, o)
					}
					if err != nil {
						reply(nil, forward.ToRemote(err))
						return
					}
					reply([][]byte{[]byte("{}")}, nil)
				}()
				return
			}
			reply([][]byte{fmt.Appendf(nil, "%s %d %s", from, kind, payload)}, nil)
		},
		ForwardDown: func(from meta.NodeID, _ uint64) { p.down <- from },
	}
}

// kill ends the named process abruptly, without transfers. It returns the error with which it had
// ended before, if it had.
func (w *world) kill(name string) error {
	w.t.Helper()
	w.mu.Lock()
	p := w.runs[name]
	delete(w.runs, name)
	w.mu.Unlock()
	p.stop()
	<-p.opened
	if p.node == nil {
		return p.err
	}
	err := p.node.Err()
	if closed := p.node.Close(); closed != nil && err == nil {
		w.t.Errorf("%s: close: %v", name, closed)
	}
	return err
}

// await polls ok for up to a minute.
func (w *world) await(what string, ok func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for range 12000 {
		if ok() {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatalf("still not: %s", what)
	return 0
}

// sleep advances virtual time.
func (w *world) sleep(d time.Duration) { time.Sleep(d) }

// leader returns the node that leads the metadata, confirmed by a majority, or nil.
func (w *world) leader() *process {
	for _, name := range w.names() {
		p := w.process(name)
		select {
		case <-p.opened:
		default:
			continue
		}
		if p.node != nil && p.node.Store().IsLeader() && p.node.Store().VerifyLeader(w.t.Context()) == nil {
			return p
		}
	}
	return nil
}

// formed waits until all running nodes are up, with the given number of voters.
func (w *world) formed(nodes, voters int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d nodes up, %d voters", nodes, voters), func() bool {
		l := w.leader()
		if l == nil || len(l.node.Members().Voters()) != voters {
			return false
		}
		for _, name := range w.names() {
			p := w.process(name)
			select {
			case <-p.opened:
			default:
				return false
			}
			if p.err != nil {
				w.t.Fatalf("%s: %v", name, p.err)
			}
			up := 0
			for _, n := range p.node.Store().Nodes() {
				if n.State == meta.NodeUp {
					up++
				}
			}
			if up != nodes || p.node.Store().View().Cluster().ID == "" {
				return false
			}
		}
		return true
	})
}

// topic creates a topic with a partition for each assignment.
func (w *world) topic(name string, assignment ...[]meta.NodeID) {
	w.t.Helper()
	c := meta.TopicConfig{Partitions: len(assignment), Replicas: len(assignment[0])}.WithDefaults(len(assignment[0]), false)
	if _, err := w.node(w.names()[0]).Store().Propose(w.t.Context(), meta.CreateTopic{Name: name, Config: c, Assignment: assignment}); err != nil {
		w.t.Fatal(err)
	}
}

// partition returns a partition as known to a node.
func (w *world) partition(at, topic string, i int) meta.Partition {
	w.t.Helper()
	t := w.node(at).Store().Topic(topic)
	if t == nil {
		return meta.Partition{}
	}
	return t.Partitions[i]
}
