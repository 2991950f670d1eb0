package coord_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// cluster is three replicas of a partition, with metadata that reaches all
// nodes at once.
type cluster struct {
	t     testing.TB
	net   *Network
	nodes map[meta.NodeID]*node
	alive sync.WaitGroup // timers of proposals

	mu     sync.Mutex // guards what follows
	view   coord.View
	asked  []coord.ISRChange
	decide func(coord.ISRChange) (apply bool, answer error) // nil: applied at once
	newer  []seq.Epoch

	slow      func(follower meta.NodeID, since time.Time)             // may be nil; set before terms begin
	budget    *coord.Budget                                           // of their terms; nil: no limit
	credits   *coord.Credits                                          // of the nodes that are started; nil: none in common
	catchUp   *replication.CatchUp                                    // of the nodes that are started; nil: no limit
	sizes     limit.Sizes                                             // of the nodes that are started; zero: the default
	activated func(*coord.Term)                                       // may be nil; set before terms begin
	stalled   func(follower meta.NodeID, since time.Time, why string) // likewise
	puts      *ways                                                   // the links gather by them; nil: they do not
	answers   *ways                                                   // the answers gather by them; nil: they do not
	above     func(disk vfs.FS) vfs.FS                                // makes the file system of a node that is started; nil: it is the disk
}

type node struct {
	id      meta.NodeID
	disk    vfs.FS
	fs      *vfstest.Faulty // the disk, as the replica has it
	files   vfs.FS          // what the cluster has above that
	replica *coord.Replica
	kept    *kept
	mu      sync.Mutex // guards batches
	batches []commitlog.Batch
}

// kept is a follower's positions.
type kept struct {
	mu       sync.Mutex // guards what follows
	snapshot string
	changes  []string
	broken   bool // nothing can be stored
}

func (k *kept) Replace(p []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		return errors.New("the disk is broken")
	}
	k.snapshot, k.changes = string(p), nil
	return nil
}

func (k *kept) setBroken(broken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = broken
}

func (k *kept) Advance(p []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, string(p))
	return nil
}

func (k *kept) Update(p []byte) error { return k.Advance(p) }

func (k *kept) Cut(seq.Offset) error { return nil }

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.snapshot, k.changes)
}

var three = []meta.NodeID{"a", "b", "c"}

func newCluster(t testing.TB, isr ...meta.NodeID) *cluster {
	t.Helper()
	return newSizedCluster(t, limit.Sizes{}, isr...)
}

// newSizedCluster is newCluster with other limits, which the network enforces.
func newSizedCluster(t testing.TB, sizes limit.Sizes, isr ...meta.NodeID) *cluster {
	t.Helper()
	c := &cluster{t: t, sizes: sizes}
	c.begin(isr)
	return c
}

// begin starts the nodes, with the given ones in sync.
func (c *cluster) begin(isr []meta.NodeID) {
	c.t.Helper()
	c.net, c.nodes = NewNetwork(), map[meta.NodeID]*node{}
	c.net.SetMaxFrame(c.sizes.OrDefault().Frame)
	c.view = coord.View{Epoch: 0, Version: 1, ISR: isr, MinISR: 2, Sync: meta.SyncAlways()}
	for _, id := range three {
		c.view.Replicas = append(c.view.Replicas, coord.ReplicaView{Node: id, Incarnation: 1})
		c.start(id, vfs.NewCrashable())
	}
}

// newBudgetCluster is a cluster whose terms share a budget.
func newBudgetCluster(t testing.TB, budget *coord.Budget) *cluster {
	t.Helper()
	return newSharingCluster(t, limit.Sizes{}, budget, nil)
}

// newSharingCluster is a cluster whose terms share a budget and credits.
func newSharingCluster(t testing.TB, sizes limit.Sizes, budget *coord.Budget, credits *coord.Credits) *cluster {
	t.Helper()
	c := &cluster{t: t, net: NewNetwork(), nodes: map[meta.NodeID]*node{}, sizes: sizes, budget: budget, credits: credits}
	c.view = coord.View{Epoch: 0, Version: 1, ISR: three, MinISR: 2, Sync: meta.SyncAlways()}
	for _, id := range three {
		c.view.Replicas = append(c.view.Replicas, coord.ReplicaView{Node: id, Incarnation: 1})
		c.start(id, vfs.NewCrashable())
	}
	return c
}

// newCatchUpCluster is a cluster with two replicas in sync, whose terms share a CatchUp.
func newCatchUpCluster(t testing.TB, catchUp *replication.CatchUp) *cluster {
	t.Helper()
	c := &cluster{t: t, net: NewNetwork(), nodes: map[meta.NodeID]*node{}, catchUp: catchUp}
	c.view = coord.View{Epoch: 0, Version: 1, ISR: []meta.NodeID{"a", "b"}, MinISR: 2, Sync: meta.SyncAlways()}
	for _, id := range three {
		c.view.Replicas = append(c.view.Replicas, coord.ReplicaView{Node: id, Incarnation: 1})
		c.start(id, vfs.NewCrashable())
	}
	return c
}

// start opens a node's replica. It has no role yet.
func (c *cluster) start(id meta.NodeID, disk vfs.FS) *node {
	c.t.Helper()
	n := &node{id: id, disk: disk, fs: vfstest.NewFaulty(disk), kept: &kept{}}
	var fsys vfs.FS = n.fs
	if c.above != nil {
		fsys = c.above(fsys)
	}
	n.files = fsys
	r, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: fsys, Dir: "p", Self: id, Partition: replication.Partition{Topic: 1}, Now: time.Now, Peers: c.peers(id),
		Log:        commitlog.Options{FillBytes: -1, SegmentBytes: 64 << 10},
		Sizes:      c.sizes,
		Budget:     c.budget,
		Credits:    c.credits,
		CatchUp:    c.catchUp,
		ProposeISR: c.propose, Superseded: c.superseded,
		Slow: func(follower meta.NodeID, since time.Time) {
			if c.slow != nil {
				c.slow(follower, since)
			}
		},
		Stalled: func(follower meta.NodeID, since time.Time, why string) {
			if c.stalled != nil {
				c.stalled(follower, since, why)
			}
		},
		Activated: func(t *coord.Term) {
			if c.activated != nil {
				c.activated(t)
			}
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.replica = r
	c.nodes[id] = n
	c.net.Serve(id, func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) {
		if c.answers != nil {
			r.Handle(c.answers.of(id), kind, p, c.answers.reply(id, reply))
			return
		}
		r.Handle(nil, kind, p, reply)
	})
	return n
}

// peers returns a node's connections to the others.
func (c *cluster) peers(id meta.NodeID) coord.Peers {
	if c.puts != nil {
		return gatheringPeers{c.net.Peers(id), c.puts}
	}
	return c.net.Peers(id)
}

func (c *cluster) superseded(e seq.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newer = append(c.newer, e)
}

// propose acts as the metadata group: it decides after a millisecond.
func (c *cluster) propose(t *coord.Term, change coord.ISRChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, change)
	c.alive.Add(1)
	time.AfterFunc(time.Millisecond, func() {
		defer c.alive.Done()
		apply, err := c.decided(change)
		if apply {
			t.Update(c.current())
		}
		t.ISRProposed(change, err)
	})
}

func (c *cluster) decided(change coord.ISRChange) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decide != nil {
		if apply, err := c.decide(change); !apply {
			return false, err
		}
	}
	if change.Version != c.view.Version {
		return false, failure.StaleVersion
	}
	if r := c.replicaLocked(change.Joiner); r != nil && r.Incarnation != change.Incarnation {
		return false, failure.StaleIncarnation
	}
	c.view.Version++
	c.view.ISR = change.ISR
	return true, nil
}

func (c *cluster) replicaLocked(id meta.NodeID) *coord.ReplicaView {
	for i := range c.view.Replicas {
		if c.view.Replicas[i].Node == id {
			return &c.view.Replicas[i]
		}
	}
	return nil
}

func (c *cluster) current() coord.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.view
	v.Replicas = slices.Clone(v.Replicas)
	return v
}

// alter changes the metadata and returns it.
func (c *cluster) alter(f func(v *coord.View)) coord.View {
	c.mu.Lock()
	c.view.Version++
	f(&c.view)
	c.mu.Unlock()
	return c.current()
}

// elect makes a node the leader in a new epoch, and informs the named nodes.
func (c *cluster) elect(leader meta.NodeID, told ...meta.NodeID) *coord.Term {
	c.t.Helper()
	v := c.alter(func(v *coord.View) { v.Epoch, v.Leader = v.Epoch+1, leader })
	for _, id := range told {
		c.tell(id, v)
	}
	return c.nodes[leader].replica.Term()
}

func (c *cluster) tell(id meta.NodeID, v coord.View) {
	c.t.Helper()
	n := c.nodes[id]
	var err error
	if v.Leader == id {
		err = n.replica.Lead(v, func(b commitlog.Batch) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.batches = append(n.batches, b)
		})
		if err == nil {
			n.replica.Term().SharePositions([]byte("none"), nil)
		}
	} else {
		err = n.replica.Follow(v, n.kept)
	}
	if err != nil {
		c.t.Fatalf("%s at epoch %d: %v", id, v.Epoch, err)
	}
}

func (c *cluster) close() {
	c.t.Helper()
	for _, n := range c.nodes {
		if err := n.replica.Close(); err != nil {
			c.t.Error(err)
		}
	}
	c.alive.Wait()
	c.net.Wait()
}

func (c *cluster) isr() []meta.NodeID { return c.current().ISR }

// record is an entry of one record.
type record struct {
	text string
	told chan error
}

func (r *record) Size() int                              { return commitlog.RecordBytes(len(r.text)) }
func (r *record) AppendTo(b *commitlog.Builder)          { copy(b.Next(len(r.text)), r.text) }
func (r *record) Complete(_ commitlog.Placed, err error) { r.told <- err }

// put appends a record. The channel receives its outcome.
func put(t *coord.Term, text string) <-chan error {
	r := &record{text, make(chan error, 1)}
	if err := t.Append(r); err != nil {
		r.told <- err
	}
	return r.told
}

// within returns the value that a channel yields within a time, or errWaiting.
func within(d time.Duration, told <-chan error) error {
	timeout := time.After(d)
	synctest.Wait()
	select {
	case err := <-told:
		return err
	default:
	}
	select {
	case err := <-told:
		return err
	case <-timeout:
		return errWaiting
	}
}

var errWaiting = errors.New("still waiting")

// tick calls Tick ten times a second for a while.
func tick(t *coord.Term, d time.Duration) {
	for range d / (100 * time.Millisecond) {
		<-time.After(100 * time.Millisecond)
		t.Tick(time.Now(), time.Now())
	}
}

// bytesOf returns a log up to an end.
func bytesOf(t testing.TB, l *commitlog.Log) []byte {
	t.Helper()
	raw, err := l.ReadRaw(l.Start(), 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (c *cluster) same(ids ...meta.NodeID) {
	c.t.Helper()
	first := c.nodes[ids[0]].replica.Log()
	for _, id := range ids[1:] {
		l := c.nodes[id].replica.Log()
		if l.End() != first.End() || !bytes.Equal(bytesOf(c.t, l), bytesOf(c.t, first)) {
			c.t.Errorf("%s ends at %d, %s ends at %d, or they differ", ids[0], first.End(), id, l.End())
		}
	}
}

// inVirtualTime runs a test with a new cluster in which all are in sync.
func inVirtualTime(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, three...)
		f(t, c)
		c.close()
	})
}

func TestIdleTermHasNoWork(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		if !term.Idle() {
			t.Error("everybody has everything, and it is not idle")
		}
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		if term.Idle() {
			t.Error("idle, though the others were not told what is committed")
		}
		tick(term, time.Second)
		if !term.Idle() {
			t.Error("not idle after all followers know")
		}
		c.net.Kill("c")
		synctest.Wait()
		if term.Idle() {
			t.Error("idle, though a replica went away")
		}
		tick(term, time.Second)
		if term.Idle() {
			t.Error("idle while a replica is missing")
		}
	})
}

func TestIdleTimeIsNoLag(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		var activated []*coord.Term
		c.activated = func(t *coord.Term) { activated = append(activated, t) }
		c.net.SetDelay(func(_, _ meta.NodeID) time.Duration { return 10 * time.Millisecond })
		term := c.elect("a", three...)
		tick(term, time.Second)
		for range 2 {
			if !term.Idle() {
				t.Fatal("not idle")
			}
			activated = nil
			<-time.After(time.Minute) // without a tick
			told := put(term, "m")
			term.Tick(time.Now(), time.Now()) // before a follower can have answered
			if !slices.Equal(activated, []*coord.Term{term}) {
				t.Errorf("%d told that it is not idle any more", len(activated))
			}
			if err := within(time.Second, told); err != nil {
				t.Fatal(err)
			}
			tick(term, time.Second)
		}
		<-time.After(time.Minute)
		c.net.Break("a", "b")
		tick(term, time.Second)
		if len(c.asked) > 0 {
			t.Errorf("%d changes are asked for, the first %+v", len(c.asked), c.asked[0])
		}
	})
}
