package broker

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// lan is several brokers that replicate to each other in memory, over one store
// of metadata. Brokers can be stopped, killed and restarted with what their
// disks have kept.
type lan struct {
	t     *testing.T
	store *raftstore.Store
	hosts map[meta.NodeID]*lanHost // does not change
	opts  func(*Options)

	mu    sync.Mutex // guards links
	links map[*lanLink]struct{}
}

// lanHost is a machine for a broker.
type lanHost struct {
	lan    *lan
	id     meta.NodeID
	disk   *vfs.Mem
	broker atomic.Pointer[Broker]   // nil: none runs
	dead   atomic.Pointer[Broker]   // killed: everything it sends is lost
	away   atomic.Bool              // it answers others' calls like a node that is starting
	calls  map[meta.NodeID]*lanLink // of others to here; guarded by the lan's lock
}

// newLan starts brokers with these names. opts changes their options; nil: no
// change.
func newLan(t *testing.T, opts func(*Options), ids ...meta.NodeID) *lan {
	t.Helper()
	l := &lan{t: t, hosts: map[meta.NodeID]*lanHost{}, opts: opts, links: map[*lanLink]struct{}{}}
	var err error
	l.store, err = raftstore.Open(raftstore.Options{InMemory: true, NodeID: "store", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.store.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		l.hosts[id] = &lanHost{lan: l, id: id, disk: vfs.NewCrashable()}
	}
	t.Cleanup(l.close)
	for _, id := range ids {
		l.start(id)
	}
	return l
}

func (l *lan) close() {
	for id := range l.hosts {
		l.stop(id)
		if b := l.hosts[id].dead.Load(); b != nil {
			_ = b.Close()
		}
	}
	if err := l.store.Close(); err != nil {
		l.t.Error(err)
	}
}

// start starts a broker on its disk.
func (l *lan) start(id meta.NodeID) *Broker {
	l.t.Helper()
	h := l.hosts[id]
	o := Options{
		Options: host.Options{
			Self: id, FS: h.disk, DataDir: "data", Meta: l.store, Peers: h, Calls: forward.Caller{Remote: h}, TickInterval: time.Millisecond,
		},
		AutoCreateTopics: true,
	}
	if l.opts != nil {
		l.opts(&o)
	}
	b, err := Open(l.t.Context(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	h.broker.Store(b)
	l.tell(id, true)
	return b
}

// stop stops a broker cleanly.
func (l *lan) stop(id meta.NodeID) {
	if b := l.hosts[id].broker.Load(); b != nil {
		if err := b.Close(); err != nil {
			l.t.Error(err)
		}
		l.hosts[id].broker.Store(nil)
		l.tell(id, false)
	}
}

// kill ends a broker like a power loss: its disk keeps what was synced.
func (l *lan) kill(id meta.NodeID) {
	l.crash(id)
	l.tell(id, false)
}

// crash ends a broker like kill, but no other node notices until it restarts.
func (l *lan) crash(id meta.NodeID) {
	h := l.hosts[id]
	b := h.broker.Swap(nil)
	h.dead.Store(b)
	h.disk = h.disk.CrashClone(vfs.Crash{})
	_ = b.Close()
	h.dead.Store(nil)
}

// elect gives a partition another leader, like the controller.
func (l *lan) elect(name string, i int, leader meta.NodeID) {
	l.t.Helper()
	for {
		p := l.store.Topic(name).Partitions[i]
		r, err := l.store.Propose(l.t.Context(), meta.ElectLeaders{Elections: []meta.Election{
			{Topic: name, Partition: i, Version: p.Version, Leader: leader},
		}})
		err = errors.Join(append(r.Failed, err)...)
		switch {
		case err == nil:
			return
		case !errors.Is(err, failure.StaleVersion): // else the in-sync set changed meanwhile
			l.t.Fatal(err)
		}
	}
}

// failOver marks a node as down, and gives its partitions to other in-sync
// replicas.
func (l *lan) failOver(down meta.NodeID) {
	l.t.Helper()
	if _, err := l.store.Propose(l.t.Context(), meta.SetNodeState{ID: down, State: meta.NodeDown}); err != nil {
		l.t.Fatal(err)
	}
	for _, t := range l.store.Topics() {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Leader == down {
				k := slices.IndexFunc(p.ISR, func(id meta.NodeID) bool { return l.hosts[id].broker.Load() != nil })
				if k < 0 {
					l.t.Fatalf("no replica can lead %s/%d: %v", t.Name, i, p.ISR)
				}
				l.elect(t.Name, i, p.ISR[k])
			}
		}
	}
}

// at returns the broker that runs on a host.
func (l *lan) at(id meta.NodeID) *Broker { return l.hosts[id].broker.Load() }

// leader waits until the leader by the metadata leads, and returns its broker.
func (l *lan) leader(name string, i int) (b *Broker) {
	l.t.Helper()
	l.eventually("a leader of "+name, func() bool {
		t := l.store.Topic(name)
		if t == nil || t.Partitions[i].Leader == "" {
			return false
		}
		if b = l.at(t.Partitions[i].Leader); b == nil {
			return false
		}
		h := b.Host.Lookup(name)
		lp := (*host.Led)(nil)
		if h != nil {
			lp = h.Led(i)
		}
		return lp != nil && lp.Term.Epoch() == t.Partitions[i].Epoch
	})
	return b
}

// inSync waits until partition i of a topic has the given number of in-sync
// replicas.
func (l *lan) inSync(name string, i, replicas int) {
	l.t.Helper()
	l.eventually("in-sync replicas of "+name, func() bool { return len(l.store.Topic(name).Partitions[i].ISR) == replicas })
}

// patience bounds waiting for what must happen.
const patience = time.Minute

func (l *lan) eventually(what string, f func() bool) {
	l.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			l.t.Fatalf("waited in vain for %s: %+v", what, l.store.Topics())
		}
	}
}

// put publishes at a partition's leader and waits.
func (l *lan) put(name string, i int, body string) error {
	got := make(chan error, 1)
	l.leader(name, i).Router.Publish(l.t.Context(), publish.Request{
		Topic: name, Partition: i, Messages: []topic.Message{{Body: []byte(body)}}, Done: func(r topic.Receipt) { got <- r.Err },
	})
	return <-got
}

func (l *lan) mustPut(name string, i int, bodies ...string) {
	l.t.Helper()
	for _, b := range bodies {
		if err := l.put(name, i, b); err != nil {
			l.t.Fatalf("publish %q: %v", b, err)
		}
	}
}

func (l *lan) create(name string, replicas ...meta.NodeID) {
	l.t.Helper()
	cfg := meta.TopicConfig{Replicas: len(replicas)}.WithDefaults(len(replicas), false)
	if _, err := l.store.Propose(l.t.Context(), meta.CreateTopic{Name: name, Config: cfg, Assignment: [][]meta.NodeID{replicas}}); err != nil {
		l.t.Fatal(err)
	}
}

// transfer makes the leader of partition 0 of a topic transfer the leadership to another
// node.
func (l *lan) transfer(ctx context.Context, name string, to meta.NodeID) error {
	b := l.leader(name, 0)
	_, err := b.Host.Transfer(ctx, forward.Transfer{Topic: name, Incarnation: b.Host.Lookup(name).Incarnation, To: to})
	return err
}

func (l *lan) subscribe(name, channel string, i int) *consumer {
	l.t.Helper()
	return (&node{Broker: l.leader(name, i), t: l.t}).subscribe(name, channel)
}

// lanLink is the connection of one replica to another.
type lanLink struct {
	from, to *lanHost
	owner    *Broker // that opened it
	events   coord.LinkEvents

	mu      sync.Mutex // guards what follows
	up      bool
	closed  bool
	session int
	queue   []func()
	busy    bool
}

// Follow implements coord.Peers.
func (h *lanHost) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	l := &lanLink{from: h, to: h.lan.hosts[node], owner: h.broker.Load(), events: e}
	h.lan.mu.Lock()
	h.lan.links[l] = struct{}{}
	h.lan.mu.Unlock()
	l.set(l.to.broker.Load() != nil)
	return l
}

// tell informs all links to a host whether its broker runs.
func (l *lan) tell(id meta.NodeID, up bool) {
	l.mu.Lock()
	var links []*lanLink
	for k := range l.links {
		if k.to.id == id {
			links = append(links, k)
		}
	}
	l.mu.Unlock()
	for _, k := range links {
		k.set(up)
	}
}

func (l *lanLink) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up == up {
		return
	}
	l.up = up
	l.session++
	if up {
		l.postLocked(l.events.Up)
	} else {
		l.postLocked(func() { l.events.Down(true) })
	}
}

// postLocked calls f later, after the functions posted before.
func (l *lanLink) postLocked(f func()) {
	l.queue = append(l.queue, f)
	if !l.busy {
		l.busy = true
		go l.run()
	}
}

func (l *lanLink) run() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.closed {
			l.busy, l.queue = false, nil
			l.mu.Unlock()
			return
		}
		f := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		f()
	}
}

// Close implements coord.Link.
func (l *lanLink) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.from.lan.mu.Lock()
	delete(l.from.lan.links, l)
	l.from.lan.mu.Unlock()
}

// Go implements replication.Caller.
func (l *lanLink) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to, session := l.to.broker.Load(), l.session
	if !l.up || to == nil || l.owner != nil && l.from.dead.Load() == l.owner {
		l.postLocked(func() { done(nil, peer.ErrDisconnected) })
		return
	}
	request := bytes.Join(payload, nil)
	l.postLocked(func() {
		to.Host.Topics.HandleReplication(nil, l.from.id, kind, request, func(reply []byte) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.postLocked(func() {
				l.mu.Lock()
				over := l.session != session
				l.mu.Unlock()
				if over {
					done(nil, peer.ErrDisconnected)
				} else {
					done(reply, nil)
				}
			})
		})
	})
}

// Go implements forward.Remote.
func (h *lanHost) Go(node meta.NodeID, kind uint8, payload [][]byte, done func([]byte, error)) {
	to := h.lan.hosts[node].remote(h)
	to.mu.Lock()
	defer to.mu.Unlock()
	b := to.to.broker.Load()
	if b == nil || h.dead.Load() != nil {
		to.postLocked(func() {
			done(nil, &peer.UnreachableError{Node: peer.Node(node), Err: errors.New("connection refused")})
		})
		return
	}
	if to.to.away.Load() {
		to.postLocked(func() { done(nil, forward.ToRemote(failure.NotServing)) })
		return
	}
	request := bytes.Join(payload, nil)
	to.postLocked(func() {
		b.Calls.HandleForward(h.id, 1, kind, request, func(reply [][]byte, err error) {
			to.mu.Lock()
			defer to.mu.Unlock()
			to.postLocked(func() { done(bytes.Join(reply, nil), err) })
		})
	})
}

// remote returns the connection for another host's calls to this one.
func (h *lanHost) remote(from *lanHost) *lanLink {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	if h.calls == nil {
		h.calls = map[meta.NodeID]*lanLink{}
	}
	if h.calls[from.id] == nil {
		h.calls[from.id] = &lanLink{from: from, to: h}
	}
	return h.calls[from.id]
}

// Call implements forward.Remote.
func (h *lanHost) Call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	return peer.Await(ctx, func(done func([]byte, error)) { h.Go(node, kind, payload, done) })
}
