package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/coordtest"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// cluster is three replicas of a partition, and metadata that everybody learns
// at once.
type cluster struct {
	t     testing.TB
	net   *coordtest.Network
	nodes map[meta.NodeID]*node
	alive sync.WaitGroup // timers of proposals

	mu     sync.Mutex // guards what follows
	view   coord.View
	asked  []coord.ISRChange
	decide func(coord.ISRChange) (apply bool, answer error) // nil: applied at once
	newer  []seq.Epoch
}

type node struct {
	id      meta.NodeID
	fs      *vfs.Mem
	replica *coord.Replica
	kept    *kept
	mu      sync.Mutex // guards batches
	batches []commitlog.Batch
}

// kept is the positions of a follower.
type kept struct {
	mu       sync.Mutex // guards what follows
	snapshot string
	changes  []string
}

func (k *kept) Replace(p []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.snapshot, k.changes = string(p), nil
	return nil
}

func (k *kept) Advance(p []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, string(p))
	return nil
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.snapshot, k.changes)
}

var three = []meta.NodeID{"a", "b", "c"}

func newCluster(t testing.TB, isr ...meta.NodeID) *cluster {
	t.Helper()
	c := &cluster{t: t, net: coordtest.NewNetwork(), nodes: map[meta.NodeID]*node{}}
	c.view = coord.View{Epoch: 0, Version: 1, ISR: isr, MinISR: 2, Sync: meta.SyncAlways()}
	for _, id := range three {
		c.view.Replicas = append(c.view.Replicas, coord.ReplicaView{Node: id, Incarnation: 1})
		c.start(id, vfs.NewCrashable())
	}
	return c
}

// start opens a node's replica. It has no role yet.
func (c *cluster) start(id meta.NodeID, fs *vfs.Mem) *node {
	c.t.Helper()
	n := &node{id: id, fs: fs, kept: &kept{}}
	r, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: fs, Dir: "p", Self: id, Partition: replication.Partition{Topic: 1}, Now: time.Now, Peers: c.net.Peers(id),
		Log:        commitlog.Options{FillBytes: -1, SegmentBytes: 64 << 10},
		ProposeISR: c.propose, Superseded: c.superseded,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.replica = r
	c.nodes[id] = n
	c.net.Serve(id, func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(kind, p, reply) })
	return n
}

func (c *cluster) superseded(e seq.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newer = append(c.newer, e)
}

// propose is the metadata: it decides after a millisecond.
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
		return false, meta.ErrStaleVersion
	}
	if r := c.replicaLocked(change.Joiner); r != nil && r.Incarnation != change.Incarnation {
		return false, meta.ErrStaleIncarnation
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

// elect makes a node the leader in a new epoch, and tells those who are named.
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

func (r *record) AppendTo(b *commitlog.Builder)        { copy(b.Next(len(r.text)), r.text) }
func (r *record) Settle(_ commitlog.Placed, err error) { r.told <- err }

// put appends a record. What becomes of it comes from the channel.
func put(t *coord.Term, text string) <-chan error {
	r := &record{text, make(chan error, 1)}
	if err := t.Append(r); err != nil {
		r.told <- err
	}
	return r.told
}

// within returns what comes from a channel in a time, or errWaiting.
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

func TestAnEntryIsCommittedOnceAllInSyncHaveIt(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		c.net.SetDelay(func(_, to meta.NodeID) time.Duration {
			return map[meta.NodeID]time.Duration{"b": 5 * time.Millisecond, "c": 20 * time.Millisecond}[to]
		})
		synctest.Wait()
		tick(term, time.Second)
		told := put(term, "m")
		if err := within(19*time.Millisecond, told); !errors.Is(err, errWaiting) {
			t.Errorf("settled before c has it: %v", err)
		}
		if err := within(10*time.Millisecond, told); err != nil {
			t.Error(err)
		}
		c.same(three...)
		for _, id := range three[1:] {
			if l := c.nodes[id].replica.Log(); l.DurableEnd() != 1 || l.CommittedEnd() != 0 {
				t.Errorf("%s: durable to %d, committed to %d; nobody has told it yet", id, l.DurableEnd(), l.CommittedEnd())
			}
		}
		tick(term, 200*time.Millisecond)
		for _, id := range three[1:] {
			if l := c.nodes[id].replica.Log(); l.CommittedEnd() != 1 {
				t.Errorf("%s: committed to %d after a tick", id, l.CommittedEnd())
			}
		}
	})
}

func TestAFollowerThatLagsLeavesAndReturns(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.SetCut("a", "c", true)
		told := put(term, "m")
		go tick(term, 3*time.Second)
		if err := within(1900*time.Millisecond, told); !errors.Is(err, errWaiting) {
			t.Errorf("after 1.9 s: %v", err)
		}
		if err := within(400*time.Millisecond, told); err != nil {
			t.Errorf("after 2.3 s: %v", err)
		}
		if got := c.isr(); !slices.Equal(got, three[:2]) {
			t.Errorf("in sync: %v", got)
		}
		<-time.After(2 * time.Second)
		c.net.SetCut("a", "c", false)
		tick(term, time.Second)
		if got := c.isr(); !slices.Equal(got, three) {
			t.Errorf("in sync after the cut: %v", got)
		}
		c.same(three...)
	})
}

func TestAFollowerWhoseMachineRefusesLeavesAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.Kill("c")
		if err := within(10*time.Millisecond, put(term, "m")); err != nil {
			t.Error(err)
		}
		if got := c.isr(); !slices.Equal(got, three[:2]) {
			t.Errorf("in sync: %v", got)
		}
		c.net.Kill("b")
		<-time.After(10 * time.Millisecond)
		if err := within(0, put(term, "m")); !errors.Is(err, coord.ErrNotWritable) || fate.Of(err) != fate.Refused {
			t.Errorf("alone: %v", err)
		}
	})
}

// TestASingleCopyIsNotCommitted: what was taken while there were enough is not
// called committed when the others go; it is once one of them is back.
func TestASingleCopyIsNotCommitted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.SetCut("a", "b", true)
		c.net.SetCut("a", "c", true)
		told := put(term, "m")
		go tick(term, 10*time.Second)
		<-time.After(4 * time.Second)
		if got := c.isr(); !slices.Equal(got, three[:1]) {
			t.Fatalf("in sync: %v", got)
		}
		if got := c.nodes["a"].replica.Log().CommittedEnd(); got != 0 {
			t.Errorf("committed to %d by one copy", got)
		}
		c.net.SetCut("a", "b", false)
		if err := within(900*time.Millisecond, told); err != nil {
			t.Errorf("with two copies: %v", err)
		}
		<-time.After(6 * time.Second)
	})
}

// TestWhatIsInheritedIsReadable: a leader that is left alone commits what it
// inherited, so that consuming goes on.
func TestWhatIsInheritedIsReadable(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		c.alter(func(v *coord.View) { v.ISR = three[1:2] })
		next := c.elect("b", "b")
		if got := c.nodes["b"].replica.Log().CommittedEnd(); got != 1 {
			t.Errorf("committed to %d, want what was acknowledged", got)
		}
		if err := within(0, put(next, "n")); !errors.Is(err, coord.ErrNotWritable) {
			t.Errorf("alone: %v", err)
		}
	})
}

func TestADeposedLeadersTailIsCut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		old := c.elect("a", three...)
		tick(old, time.Second)
		if err := within(time.Second, put(old, "both")); err != nil {
			t.Fatal(err)
		}
		c.net.SetCut("a", "b", true)
		c.net.SetCut("a", "c", true)
		told := put(old, "only a")
		<-time.After(time.Second)
		next := c.elect("b", "b", "c")
		tick(next, time.Second)
		c.net.SetCut("a", "b", false)
		c.net.SetCut("a", "c", false)
		// b and c refuse a, which has not heard of the election: its term is over.
		if err := within(5*time.Second, told); !errors.Is(err, coord.ErrUnknownOutcome) {
			t.Errorf("the deposed leader's entry: %v", err)
		}
		if err := within(0, put(old, "late")); !errors.Is(err, coord.ErrNotLeading) {
			t.Errorf("the deposed leader took an entry: %v", err)
		}
		c.mu.Lock()
		if !slices.Equal(c.newer, []seq.Epoch{2}) {
			t.Errorf("superseded by %v", c.newer)
		}
		c.mu.Unlock()
		told = put(next, "new")
		c.tell("a", c.current())
		go tick(next, 5*time.Second)
		if err := within(5*time.Second, told); err != nil {
			t.Error(err)
		}
		<-time.After(5 * time.Second)
		c.same(three...)
		if got := c.isr(); len(got) != 3 {
			t.Errorf("in sync: %v", got)
		}
	})
}

// TestAJoinerCountsBeforeItIsIn: from the moment it is proposed nothing is
// committed without it, also when nobody knows what became of the proposal.
func TestAJoinerCountsBeforeItIsIn(t *testing.T) {
	for _, answer := range []error{nil, errors.New("timed out"), fate.Refuse("never sent")} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, "a", "b")
			c.decide = func(coord.ISRChange) (bool, error) { return false, answer }
			c.net.Kill("c")
			term := c.elect("a", "a", "b", "c")
			tick(term, time.Second)
			r := c.nodes["c"].replica
			c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(kind, p, reply) })
			<-time.After(100 * time.Millisecond)
			c.mu.Lock()
			if len(c.asked) == 0 || c.asked[0].Joiner != "c" || c.asked[0].Incarnation != 1 {
				t.Fatalf("asked for %+v", c.asked)
			}
			c.mu.Unlock()
			c.net.SetCut("a", "c", true)
			told := put(term, "m")
			go tick(term, time.Second)
			err := within(900*time.Millisecond, told)
			if withdrawn := fate.Of(answer) == fate.Refused && answer != nil; withdrawn != (err == nil) {
				t.Errorf("answered %v: %v", answer, err)
			}
			c.mu.Lock()
			c.decide = nil
			c.mu.Unlock()
			c.tellTerm(term, func(v *coord.View) { v.ISR = []meta.NodeID{"a", "b"} })
			tick(term, 100*time.Millisecond)
			if !errors.Is(err, errWaiting) {
				told = put(term, "m")
			}
			if err := within(100*time.Millisecond, told); err != nil {
				t.Errorf("metadata has moved on without it: %v", err)
			}
			<-time.After(time.Second)
			c.close()
		})
	}
}

// tellTerm alters the metadata and updates a term.
func (c *cluster) tellTerm(t *coord.Term, f func(*coord.View)) { t.Update(c.alter(f)) }

// TestAProposalOfUnknownFateIsSettled: a joiner that died before anybody knew
// whether it had joined does not hold the partition up.
func TestAProposalOfUnknownFateIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		lost := true
		c.decide = func(coord.ISRChange) (bool, error) {
			if lost {
				lost = false
				return false, errors.New("timed out")
			}
			return true, nil
		}
		term := c.elect("a", three...)
		<-time.After(10 * time.Millisecond)
		c.net.Kill("c")
		told := put(term, "m")
		go tick(term, 3*time.Second)
		if err := within(3*time.Second, told); err != nil {
			t.Error(err)
		}
		<-time.After(3 * time.Second)
		c.close()
	})
}

func TestAJoinersLifeIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		first := true
		c.decide = func(coord.ISRChange) (bool, error) {
			if first { // it has come back with less
				first = false
				c.replicaLocked("c").Incarnation = 2
			}
			return true, nil
		}
		term := c.elect("a", three...)
		tick(term, 2*time.Second)
		if got := c.isr(); len(got) != 2 {
			t.Errorf("another life of c joined: %v", got)
		}
		term.Update(c.current())
		tick(term, 2*time.Second)
		if got := c.isr(); len(got) != 3 {
			t.Errorf("c did not join: %v", got)
		}
		c.mu.Lock()
		if last := c.asked[len(c.asked)-1]; last.Incarnation != 2 {
			t.Errorf("joined by %+v", last)
		}
		c.mu.Unlock()
		c.close()
	})
}

// words is a list of what was said.
type words struct {
	mu   sync.Mutex // guards said
	said []string
}

func (w *words) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func TestPositionsComeBeforeJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.net.SetCut("a", "c", true)
		term := c.elect("a", three...)
		var shared words
		note := func(text string) func(error) {
			return func(err error) { shared.add(fmt.Sprint(text, err)) }
		}
		term.SharePositions([]byte("old"), note("old"))
		term.ShareAdvance([]byte("lost"), note("lost"))
		term.SharePositions([]byte("new"), note("new"))
		term.ShareAdvance([]byte("x"), note("x"))
		term.ShareAdvance([]byte("y"), note("y"))
		<-time.After(time.Second)
		if got := fmt.Sprint(shared.all()); got != "[old<nil> lost<nil> new<nil> x<nil> y<nil>]" {
			t.Errorf("shared %v", got)
		}
		c.net.SetCut("a", "c", false)
		c.mu.Lock()
		c.decide = func(coord.ISRChange) (bool, error) {
			if got := c.nodes["c"].kept.String(); got != "new[x y]" {
				t.Errorf("c joins with %s", got)
			}
			return true, nil
		}
		c.mu.Unlock()
		tick(term, time.Second)
		if len(c.isr()) != 3 {
			t.Error("c did not join")
		}
		// Now it counts.
		c.net.SetCut("a", "c", true)
		term.ShareAdvance([]byte("z"), note("z"))
		<-time.After(time.Second)
		if got := shared.all(); len(got) != 5 {
			t.Errorf("done without c: %v", got)
		}
		if err := c.nodes["a"].replica.StopLeading(); err != nil {
			t.Error(err)
		}
		if got, want := shared.all(), "z"+coord.ErrUnknownOutcome.Error(); len(got) != 6 || got[5] != want {
			t.Errorf("after the term: %v", got)
		}
		c.close()
	})
}

func TestSealWaitsUntilAllIsEverywhere(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.net.SetDelay(func(_, _ meta.NodeID) time.Duration { return 3 * time.Millisecond })
		term := c.elect("a", three...)
		tick(term, time.Second)
		var told []<-chan error
		for i := range 100 {
			told = append(told, put(term, fmt.Sprint("m", i)))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		if err := term.Seal(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("sealing took %v", took)
		}
		for _, ch := range told {
			if err := within(0, ch); err != nil {
				t.Error(err)
			}
		}
		for _, id := range three {
			if got := c.nodes[id].replica.Log().CommittedEnd(); got != 100 {
				t.Errorf("%s knows %d as committed", id, got)
			}
		}
		if err := within(0, put(term, "late")); !errors.Is(err, coord.ErrMoving) {
			t.Errorf("sealed, it answered %v", err)
		}
		term.Unseal()
		if err := within(time.Second, put(term, "again")); err != nil {
			t.Errorf("unsealed: %v", err)
		}
		c.net.SetCut("a", "b", true)
		put(term, "stuck")
		short, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer stop()
		if err := term.Seal(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with b away: %v", err)
		}
		if err := within(10*time.Millisecond, put(term, "more")); !errors.Is(err, errWaiting) {
			t.Errorf("after a seal that failed: %v", err)
		}
	})
}

func TestAnOldEntrysOutcomeIsUnknown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.decide = func(coord.ISRChange) (bool, error) { return false, errors.New("no quorum") }
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.SetCut("a", "c", true)
		told := put(term, "m")
		tick(term, 4800*time.Millisecond)
		if err := within(0, told); !errors.Is(err, errWaiting) {
			t.Errorf("after 4.8 s: %v", err)
		}
		tick(term, 300*time.Millisecond)
		if err := within(0, told); !errors.Is(err, coord.ErrUnknownOutcome) || fate.Of(err) != fate.Uncertain {
			t.Errorf("after 5.1 s: %v", err)
		}
		if err := within(0, put(term, "n")); !errors.Is(err, coord.ErrNotWritable) {
			t.Errorf("while it waits: %v", err)
		}
		c.net.SetCut("a", "c", false)
		tick(term, 3*time.Second)
		if err := within(time.Second, put(term, "n")); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		n := c.nodes["a"]
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.batches) != 2 || n.batches[0].First() != 0 {
			t.Errorf("%d batches were said to be committed", len(n.batches))
		}
	})
}

func TestConfirmedIsAsOldAsTheOldestAnswer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		if at := term.Confirmed(); time.Since(at) < 900*time.Millisecond {
			t.Errorf("idle, confirmed %v ago", time.Since(at))
		}
		lost := time.Now().Add(-time.Second)
		term.Tick(time.Now(), lost)
		<-time.After(10 * time.Millisecond)
		if at := term.Confirmed(); time.Since(at) > 20*time.Millisecond {
			t.Errorf("asked, confirmed %v ago", time.Since(at))
		}
		c.net.SetCut("c", "a", true)
		<-time.After(100 * time.Millisecond)
		term.Tick(time.Now(), lost)
		<-time.After(10 * time.Millisecond)
		if at := term.Confirmed(); time.Since(at) < 100*time.Millisecond {
			t.Errorf("c silent, confirmed %v ago", time.Since(at))
		}
	})
}

func TestFollowersSayHowTheyAre(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.Kill("c")
		<-time.After(10 * time.Millisecond)
		told := put(term, "m")
		tick(term, time.Second)
		if err := within(0, told); err != nil {
			t.Error(err)
		}
		got := term.Followers()
		if len(got) != 2 || got[0].Node != "b" || !got[0].Connected || got[0].Acked != 1 || got[0].Lag != 0 || got[0].LagBytes != 0 || got[0].State != "replicating" {
			t.Errorf("b: %+v", got)
		}
		if got[1].Connected || got[1].Lag != 1 || got[1].State != "disconnected" || time.Since(got[1].Since) < time.Second {
			t.Errorf("c: %+v", got[1])
		}
	})
}

func TestRolesRefuseOlderEpochs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		r := c.nodes["b"].replica
		v := c.current()
		v.Epoch, v.Leader = 5, "a"
		if err := r.Follow(v, nil); err != nil {
			t.Fatal(err)
		}
		v.Epoch = 4
		lead := func(v coord.View) error { return r.Lead(v, func(commitlog.Batch) {}) }
		for name, f := range map[string]func(coord.View) error{
			"lead": lead, "rest": r.Rest, "follow": func(v coord.View) error { return r.Follow(v, nil) },
		} {
			if err := f(v); !errors.Is(err, commitlog.ErrFenced) {
				t.Errorf("%s at an older epoch: %v", name, err)
			}
		}
		v.Epoch = 6
		if err := errors.Join(lead(v), r.Rest(v), r.Follow(v, nil)); err != nil {
			t.Error(err)
		}
	})
}
