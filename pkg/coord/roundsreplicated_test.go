package coord_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// inRounds runs a test with a cluster in which each node has a redo journal for every sync, and
// all logs take part in rounds.
func inRounds(t *testing.T, f func(t *testing.T, c *cluster, term *coord.Term)) {
	t.Helper()
	inRoundsOf(t, &cluster{}, f)
}

// inRoundsOf is inRounds with a cluster that has not begun.
func inRoundsOf(t *testing.T, c *cluster, f func(t *testing.T, c *cluster, term *coord.Term)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.t = t
		var journals []*redo.FS
		c.above = func(disk vfs.FS) vfs.FS {
			journal, _, err := redo.Open(disk, redo.Options{Root: ".", Dir: "journal", Together: 1, FileBytes: 1 << 20, Age: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			journals = append(journals, journal)
			return journal
		}
		c.begin(three)
		term := c.elect("a", three...)
		for i := range 3 {
			if err := within(time.Second, put(term, fmt.Sprint("begin ", i))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		f(t, c, term)
		for _, n := range c.nodes {
			n.fs.Decide(nil)
			_ = n.replica.Close() // its disk may have failed
		}
		c.alive.Wait()
		c.net.Wait()
		for _, j := range journals {
			_ = j.Close() // likewise
		}
	})
}

// disturbJournal disturbs the syncs of a node's journal.
func (c *cluster) disturbJournal(id meta.NodeID, f vfstest.Fault) {
	c.nodes[id].fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && strings.HasPrefix(op.Name, "journal") {
			return f
		}
		return vfstest.Fault{}
	})
}

func TestRoundCountsOnceItIsSyncedEverywhere(t *testing.T) {
	for _, slow := range three {
		inRounds(t, func(t *testing.T, c *cluster, term *coord.Term) {
			hang := make(chan struct{})
			c.disturbJournal(slow, vfstest.Fault{Hang: hang})
			var told []<-chan error
			for i := range 10 {
				told = append(told, put(term, fmt.Sprint("m", i)))
				synctest.Wait()
			}
			for i, c := range told {
				if len(c) > 0 {
					t.Errorf("entry %d was settled before the sync of %s", i, slow)
				}
			}
			if l := c.nodes[slow].replica.Log(); l.DurableEnd() != 3 || l.CommittedEnd() > 3 {
				t.Errorf("%s is durable to %d, committed to %d", slow, l.DurableEnd(), l.CommittedEnd())
			}
			close(hang)
			for _, c := range told {
				if err := within(time.Second, c); err != nil {
					t.Error(err)
				}
			}
			c.same(three...)
			for _, id := range three {
				if l := c.nodes[id].replica.Log(); l.DurableEnd() != 13 {
					t.Errorf("%s is durable to %d", id, l.DurableEnd())
				}
			}
		})
	}
}

func TestFollowerWithFailedRoundDoesNotCount(t *testing.T) {
	inRounds(t, func(t *testing.T, c *cluster, term *coord.Term) {
		c.disturbJournal("b", vfstest.Fault{Err: syscall.EIO})
		told := put(term, "m")
		if err := within(time.Second, told); !errors.Is(err, errWaiting) {
			t.Errorf("settled with %v though b has not got it", err)
		}
		tick(term, 3*time.Second)
		if err := within(time.Second, told); err != nil {
			t.Error(err)
		}
		if got := c.isr(); fmt.Sprint(got) != "[a c]" {
			t.Errorf("in sync are %v", got)
		}
		c.same("a", "c")
	})
}

// TestRoleChangesBetweenRounds deposes a leader, and adopts an epoch at a follower, while their rounds
// wait for the disk.
func TestRoleChangesBetweenRounds(t *testing.T) {
	inRounds(t, func(t *testing.T, c *cluster, term *coord.Term) {
		hang := make(chan struct{})
		c.disturbJournal("a", vfstest.Fault{Hang: hang})
		c.disturbJournal("b", vfstest.Fault{Hang: hang})
		told := put(term, "m")
		synctest.Wait()
		later := put(term, "n")
		changed := make(chan struct{})
		go func() {
			defer close(changed)
			c.elect("c", three...)
		}()
		synctest.Wait()
		select {
		case <-changed:
			t.Error("a role changed while its round was under way")
		default:
		}
		close(hang)
		<-changed
		if err := <-told; !errors.Is(err, failure.Unconfirmed) {
			t.Errorf("what was written was settled with %v", err)
		}
		if err := <-later; err == nil {
			t.Error("what arrived behind it was acknowledged")
		}
		next := c.nodes["c"].replica.Term()
		tick(next, time.Second)
		if err := within(time.Second, put(next, "o")); err != nil {
			t.Error(err)
		}
		tick(next, time.Second)
		c.same(three...)
	})
}

// ways are connections between nodes that gather requests, by the node at the
// other end.
type ways struct {
	late map[meta.NodeID]chan struct{} // links to these nodes open once the channel is closed

	mu    sync.Mutex // guards what follows
	nodes map[meta.NodeID]*way
}

// way counts the requests that a connection sent while it was held, and
// otherwise.
type way struct {
	of         *ways
	holds      int
	held, free int
}

func (w *ways) of(id meta.NodeID) *way {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes == nil {
		w.nodes = map[meta.NodeID]*way{}
	}
	if w.nodes[id] == nil {
		w.nodes[id] = &way{of: w}
	}
	return w.nodes[id]
}

// reply counts an answer of a node.
func (w *ways) reply(id meta.NodeID, reply func([]byte)) func([]byte) {
	return func(p []byte) {
		w.of(id).sent()
		reply(p)
	}
}

func (w *way) Hold()    { w.add(&w.holds, 1) }
func (w *way) Release() { w.add(&w.holds, -1) }

func (w *way) add(to *int, n int) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	*to += n
}

func (w *way) sent() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.holds > 0 {
		w.held++
		return
	}
	w.free++
}

// take returns how much was sent since the previous call.
func (w *way) take() (held, free, holds int) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	held, free = w.held, w.free
	w.held, w.free = 0, 0
	return held, free, w.holds
}

// gatheringPeers have links that gather requests.
type gatheringPeers struct {
	coord.Peers
	ways *ways
}

func (p gatheringPeers) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	if late := p.ways.late[node]; late != nil {
		<-late
	}
	return gatheringLink{p.Peers.Follow(node, e), p.ways.of(node)}
}

type gatheringLink struct {
	coord.Link
	way *way
}

func (l gatheringLink) Gatherer() vfs.Gatherer { return l.way }

func (l gatheringLink) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	l.way.sent()
	l.Link.Go(kind, payload, done)
}

// TestPutsAndAnswersOfRoundAreGathered checks that a leader's requests of one round leave together before
// its sync, and the answers of a follower's round together after its own.
func TestPutsAndAnswersOfRoundAreGathered(t *testing.T) {
	puts, answers := &ways{}, &ways{}
	inRoundsOf(t, &cluster{puts: puts, answers: answers}, func(t *testing.T, c *cluster, term *coord.Term) {
		followers := []meta.NodeID{"b", "c"}
		for _, id := range followers {
			puts.of(id).take()
			answers.of(id).take()
		}
		hang := make(chan struct{})
		for _, id := range three {
			c.disturbJournal(id, vfstest.Fault{Hang: hang})
		}
		told := put(term, "m")
		synctest.Wait()
		for _, id := range followers {
			if held, free, holds := puts.of(id).take(); held != 1 || free > 0 || holds > 0 {
				t.Errorf("before the sync %s was sent %d puts that gathered, %d others, and %d hold", id, held, free, holds)
			}
			if held, free, _ := answers.of(id).take(); held+free > 0 {
				t.Errorf("%s answered before its sync", id)
			}
		}
		close(hang)
		if err := within(time.Second, told); err != nil {
			t.Error(err)
		}
		for _, id := range followers {
			if held, free, holds := answers.of(id).take(); held != 1 || free > 0 || holds > 0 {
				t.Errorf("%s gave %d answers that gathered, %d others, and %d hold", id, held, free, holds)
			}
		}
	})
}

// other is a log of another partition that takes part in rounds.
type other struct {
	file   vfs.File
	at     int64
	synced chan error
}

func (o *other) Write(*vfs.Gathering) vfs.Sync {
	_, err := vfs.WriteDeferred(o.file, []byte("x"), o.at)
	s, ok := vfs.BeginSync(o.file)
	if err != nil || !ok {
		o.synced <- fmt.Errorf("its sync has not begun: %w", err)
		return nil
	}
	return s
}

func (o *other) Synced(_ *vfs.Gathering, err error) { o.synced <- err }

// TestRoundDoesNotWaitForALink publishes while the link to a new replica is not open yet.
func TestRoundDoesNotWaitForALink(t *testing.T) {
	inRoundsOf(t, &cluster{puts: &ways{}}, func(t *testing.T, c *cluster, term *coord.Term) {
		opens := make(chan struct{})
		c.puts.late = map[meta.NodeID]chan struct{}{"d": opens}
		f, err := c.nodes["a"].files.Create("unrelated")
		if err != nil {
			t.Fatal(err)
		}
		end := int64(0)
		for ; !vfs.Deferred(f); end++ {
			_, err := f.WriteAt([]byte("b"), end)
			if err := errors.Join(err, f.SyncData()); err != nil {
				t.Fatal(err)
			}
		}
		go c.tellTerm(term, func(v *coord.View) {
			v.Replicas = append(v.Replicas, coord.ReplicaView{Node: "d", Incarnation: 1})
		})
		synctest.Wait()
		told := put(term, "m")
		synctest.Wait()
		o := &other{file: f, at: end, synced: make(chan error, 1)}
		if !vfs.Join(f, o) {
			t.Fatal("the other log takes no part in rounds")
		}
		for about, c := range map[string]<-chan error{"the publish": told, "the other log": o.synced} {
			if err := within(time.Second, c); err != nil {
				t.Errorf("%s: %v", about, err)
			}
		}
		close(opens)
		synctest.Wait()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}
