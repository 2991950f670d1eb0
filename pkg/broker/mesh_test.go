package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// mesh is several brokers that ask each other in memory, over one store of
// metadata. Every pair has one session at a time, which can be broken, held up
// or made to refuse.
type mesh struct {
	t     testing.TB
	meta  *raftstore.Store
	nodes map[meta.NodeID]*meshNode
	lines logtest.Journal // of all nodes

	mu    sync.Mutex // guards what follows
	links map[[2]meta.NodeID]*meshLink
	last  uint64 // session
}

type meshNode struct {
	*node
	id   meta.NodeID
	mesh *mesh
}

// newMesh starts brokers with these names. Partitions of a new topic are
// assigned to the nodes in turn.
func newMesh(t testing.TB, ids ...meta.NodeID) *mesh {
	t.Helper()
	return newMeshWith(t, func(*Options) {}, ids...)
}

// newMeshWith is newMesh with separate options for each node.
func newMeshWith(t testing.TB, change func(*Options), ids ...meta.NodeID) *mesh {
	t.Helper()
	m := &mesh{t: t, nodes: map[meta.NodeID]*meshNode{}, links: map[[2]meta.NodeID]*meshLink{}}
	var err error
	m.meta, err = raftstore.Open(raftstore.Options{InMemory: true, NodeID: "store", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.meta.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.meta.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range ids {
		n := &meshNode{node: &node{t: t, fs: vfs.NewMem(), meta: m.meta}, id: id, mesh: m}
		o := Options{
			Options: host.Options{
				Self: id, FS: n.fs, DataDir: "data", Meta: m.meta, TickInterval: time.Millisecond,
				Calls: forward.Caller{Remote: n}, Logger: slog.New(slog.NewTextHandler(&m.lines, nil)),
			},
			AutoCreateTopics: true, TopicDefaults: meta.TopicConfig{Replicas: 1},
		}
		change(&o)
		n.Broker, err = Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		m.nodes[id] = n
	}
	t.Cleanup(m.stop)
	return m
}

// stop closes the brokers, and then the links, like a process.
func (m *mesh) stop() {
	for _, n := range m.nodes {
		n.Host.Exit()
	}
	m.mu.Lock()
	links := m.links
	m.mu.Unlock()
	for _, n := range m.nodes {
		if err := n.Close(); err != nil {
			m.t.Error(err)
		}
	}
	for _, l := range links {
		l.breakOff(false)
	}
}

// create creates a topic with these nodes as the leaders of its partitions.
func (m *mesh) create(name string, leaders ...meta.NodeID) {
	m.t.Helper()
	cfg := meta.TopicConfig{Partitions: len(leaders), Replicas: 1}.WithDefaults(1, meta.IsEphemeral(name))
	c := meta.CreateTopic{Name: name, Config: cfg}
	for _, id := range leaders {
		c.Assignment = append(c.Assignment, []meta.NodeID{id})
	}
	if _, err := m.meta.Propose(m.t.Context(), c); err != nil {
		m.t.Fatal(err)
	}
	m.converge(name)
}

func (m *mesh) converge(name string) {
	m.t.Helper()
	for _, n := range m.nodes {
		if err := n.Host.Converge(name); err != nil {
			m.t.Fatal(err)
		}
	}
}

// meshLink is the connection for one node's calls to another.
type meshLink struct {
	m        *mesh
	from, to meta.NodeID

	mu      sync.Mutex // guards what follows
	session uint64
	held    bool                   // calls arrive only when it is not
	broken  bool                   // calls are refused
	alter   func(kind uint8) error // what a call is refused with before it arrives; nil: none
	calls   []*meshCall            // sent, in order
	open    map[*meshCall]struct{} // not answered
	wakeup  chan struct{}          // holds one
	done    chan struct{}          // the link has ended
	events  []func()               // answers in transit, in order
	running sync.WaitGroup
}

type meshCall struct {
	session uint64
	kind    uint8
	payload []byte
	sent    [][]byte
	done    func([]byte, error)
}

func (m *mesh) link(from, to meta.NodeID) *meshLink {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]meta.NodeID{from, to}
	l := m.links[key]
	if l == nil {
		m.last++
		l = &meshLink{
			m: m, from: from, to: to, session: m.last, open: map[*meshCall]struct{}{},
			wakeup: make(chan struct{}, 1), done: make(chan struct{}),
		}
		m.links[key] = l
		l.running.Go(l.run)
	}
	return l
}

// run delivers calls and answers, each in their order.
func (l *meshLink) run() {
	for {
		l.mu.Lock()
		var call *meshCall
		var event func()
		switch {
		case len(l.events) > 0:
			event, l.events = l.events[0], l.events[1:]
		case len(l.calls) > 0 && !l.held:
			call, l.calls = l.calls[0], l.calls[1:]
		}
		alter := l.alter
		l.mu.Unlock()
		switch {
		case event != nil:
			event()
		case call != nil:
			l.deliver(call, alter)
		default:
			select {
			case <-l.wakeup:
			case <-l.done:
				return
			}
		}
	}
}

func (l *meshLink) deliver(c *meshCall, alter func(uint8) error) {
	if !bytes.Equal(c.payload, bytes.Join(c.sent, nil)) {
		l.m.t.Error("a payload was changed before its call was done")
	}
	if alter != nil {
		if err := alter(c.kind); err != nil {
			l.answer(c, nil, forward.ToRemote(err))
			return
		}
	}
	given := bytes.Clone(c.payload)
	var once sync.Once
	l.m.nodes[l.to].Calls.HandleForward(l.from, c.session, c.kind, given, func(p [][]byte, err error) {
		first := false
		once.Do(func() { first = true })
		if !first {
			l.m.t.Error("a call was answered twice")
		}
		l.answer(c, bytes.Join(p, nil), err)
	})
	for i := range given {
		given[i] = 0xdb // it was good until then
	}
}

// answer calls a call's done later, if its session still exists.
func (l *meshLink) answer(c *meshCall, reply []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.events = append(l.events, func() { c.done(reply, err) })
	l.wake()
}

func (l *meshLink) wake() { signal.Poke(l.wakeup) }

// hold stops calls from arriving, or releases them.
func (l *meshLink) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	l.wake()
}

// refuse makes f refuse calls before they arrive.
func (l *meshLink) refuse(f func(kind uint8) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alter = f
}

// cut breaks the session, and refuses new calls until the connection is
// restored.
func (l *meshLink) cut(broken bool) {
	l.mu.Lock()
	old := l.session
	l.broken = broken
	if broken {
		l.m.mu.Lock()
		l.m.last++
		l.session = l.m.last
		l.m.mu.Unlock()
		l.calls = nil
		for c := range l.open {
			l.events = append(l.events, func() { c.done(nil, peer.ErrDisconnected) })
		}
		clear(l.open)
		l.events = append(l.events, func() { l.m.nodes[l.to].Calls.ForwardDown(l.from, old) })
	}
	l.wake()
	l.mu.Unlock()
}

// breakOff ends the link permanently.
func (l *meshLink) breakOff(tell bool) {
	l.cut(true)
	close(l.done)
	l.running.Wait()
	l.mu.Lock()
	events := l.events
	l.events = nil
	l.mu.Unlock()
	for _, f := range events {
		f()
	}
}

// Go implements forward.Remote.
func (n *meshNode) Go(to meta.NodeID, kind uint8, payload [][]byte, done func([]byte, error)) {
	l := n.mesh.link(n.id, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		err := &peer.UnreachableError{Node: peer.Node(to), Err: errors.New("cut")}
		l.events = append(l.events, func() { done(nil, err) })
		l.wake()
		return
	}
	c := &meshCall{l.session, kind, bytes.Join(payload, nil), payload, done}
	l.calls = append(l.calls, c)
	l.open[c] = struct{}{}
	l.wake()
}

// Call implements forward.Remote.
func (n *meshNode) Call(ctx context.Context, to meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	return peer.Await(ctx, func(done func([]byte, error)) { n.Go(to, kind, payload, done) })
}
