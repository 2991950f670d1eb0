package coord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestEntryIsCommittedOnceAllInSyncHaveIt(t *testing.T) {
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
				t.Errorf("%s: durable to %d, committed to %d before the leader said so", id, l.DurableEnd(), l.CommittedEnd())
			}
		}
		tick(term, time.Second)
		for _, id := range three[1:] {
			if l := c.nodes[id].replica.Log(); l.CommittedEnd() != 1 {
				t.Errorf("%s: committed to %d after a rest", id, l.CommittedEnd())
			}
		}
	})
}

func TestFollowerThatLagsLeavesAndReturns(t *testing.T) {
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
		c.mu.Lock()
		if len(c.asked) != 2 { // a joiner is not admitted for its earlier state
			t.Errorf("asked for %d changes: %+v", len(c.asked), c.asked)
		}
		c.mu.Unlock()
		c.same(three...)
	})
}

func TestFollowerWithRefusedConnectionsLeavesAtOnce(t *testing.T) {
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
		if err := within(0, put(term, "m")); !errors.Is(err, failure.TooFewISR) || fate.Of(err) != fate.Refused {
			t.Errorf("alone: %v", err)
		}
	})
}

// TestSingleCopyIsNotCommitted: an entry accepted with enough replicas does
// not become committed when the others fail. It is committed once one of them
// is back.
func TestSingleCopyIsNotCommitted(t *testing.T) {
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

// TestInheritedEntriesAreReadable: a leader without followers commits the entries
// it inherited, so that consuming continues.
func TestInheritedEntriesAreReadable(t *testing.T) {
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
		if err := within(0, put(next, "n")); !errors.Is(err, failure.TooFewISR) {
			t.Errorf("alone: %v", err)
		}
	})
}

func TestDeposedLeadersTailIsTruncated(t *testing.T) {
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
		// b and c refuse a, which does not know of the election: its term has ended.
		if err := within(5*time.Second, told); !errors.Is(err, failure.Unconfirmed) {
			t.Errorf("the deposed leader's entry: %v", err)
		}
		if err := within(0, put(old, "late")); !errors.Is(err, failure.NotLeading) {
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

func TestSealWaitsUntilAllReplicasHoldAll(t *testing.T) {
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
		if err := within(0, put(term, "late")); !errors.Is(err, failure.Moving) {
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

// TestSealDoesNotWaitForTickOfSlowLeader has the followers
// acknowledge before the leader does: no request has brought them the committed
// end by then.
func TestSealDoesNotWaitForTickOfSlowLeader(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		if err := c.nodes["a"].replica.Close(); err != nil {
			t.Fatal(err)
		}
		disk := vfstest.NewFaulty(vfs.NewMem())
		c.start("a", disk)
		term := c.elect("a", three...)
		tick(term, time.Second)
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind != vfs.OpSyncData {
				return vfstest.Fault{}
			}
			slow := make(chan struct{})
			time.AfterFunc(20*time.Millisecond, func() { close(slow) })
			return vfstest.Fault{Hang: slow}
		})
		told := put(term, "m")
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := term.Seal(ctx); err != nil {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := within(0, told); err != nil {
			t.Error(err)
		}
		disk.Decide(nil)
	})
}

func TestOldEntryHasUnknownOutcome(t *testing.T) {
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
		if err := within(0, told); !errors.Is(err, failure.Unconfirmed) || fate.Of(err) != fate.Uncertain {
			t.Errorf("after 5.1 s: %v", err)
		}
		if err := within(0, put(term, "n")); !errors.Is(err, failure.TooFewISR) {
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

// TestStalledDiskRefusesWaitingPublishes: an entry that was not written in time is
// refused and stays unwritten.
func TestStalledDiskRefusesWaitingPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: NewNetwork(), nodes: map[meta.NodeID]*node{}}
		c.view = coord.View{Version: 1, ISR: three[:1], MinISR: 1, Sync: meta.SyncAlways(), Replicas: []coord.ReplicaView{{Node: "a"}}}
		disk := vfstest.NewFaulty(vfs.NewMem())
		c.start("a", disk)
		term := c.elect("a", "a")
		hang := make(chan struct{})
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData {
				return vfstest.Fault{Hang: hang}
			}
			return vfstest.Fault{}
		})
		written := put(term, "written")
		synctest.Wait()
		waiting := put(term, "waiting")
		tick(term, 5100*time.Millisecond)
		if err := within(0, written); !errors.Is(err, failure.Unconfirmed) {
			t.Errorf("what was written: %v", err)
		}
		if err := within(0, waiting); !errors.Is(err, failure.TooFewISR) {
			t.Errorf("what waited: %v", err)
		}
		close(hang)
		synctest.Wait()
		if err := within(time.Second, put(term, "later")); err != nil {
			t.Error(err)
		}
		if got := c.nodes["a"].replica.Log().End(); got != 2 {
			t.Errorf("the log ends at %d, want 2", got)
		}
		c.close()
	})
}

// TestLogAheadOfLeadersIsKept: a follower holds committed records that its
// leader lacks. It refuses to cut them; after an operator's election, which
// supersedes them, it reports that it must be copied again.
func TestLogAheadOfLeadersIsKept(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		logAhead(t, unclean)
	}
}

func logAhead(t *testing.T, unclean bool) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.net.Kill("c")
		term := c.elect("a", three...)
		tick(term, time.Second)
		if err := within(time.Second, put(term, "lost")); err != nil {
			t.Fatal(err)
		}
		tick(term, time.Second)
		c.alter(func(v *coord.View) {
			v.ISR = three[2:]
			if unclean {
				v.Unclean = v.Epoch + 1
			}
		})
		c.elect("c", three...) // before a reaches it again and sends the missing entries
		r := c.nodes["c"].replica
		c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(nil, kind, p, reply) })
		<-time.After(time.Second)
		b := c.nodes["b"].replica
		if b.Damaged() != unclean || b.Refusing() == unclean || b.Log().End() != 1 {
			t.Errorf("unclean %t: damaged: %v, refusing: %v, log end %d", unclean, b.Damaged(), b.Refusing(), b.Log().End())
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

func TestFollowersReportTheirState(t *testing.T) {
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

// TestFollowerThatCannotReadItsLogLeaves: it cannot be compared, reports this,
// and delays publishers no longer than a lagging follower. The leader retries
// less and less often.
func TestFollowerThatCannotReadItsLogLeaves(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		if err := within(time.Second, put(term, "some text")); err != nil {
			t.Fatal(err)
		}
		n := c.nodes["c"]
		n.replica.Log().ReleaseTail()
		markDamaged(t, n.disk.(*vfs.Mem), "some text")
		asked := 0
		c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) {
			asked++
			n.replica.Handle(nil, kind, p, reply)
		})
		c.net.Break("a", "c")
		synctest.Wait() // or the last batch it compares could be the next one
		told := put(term, "more")
		go tick(term, 10*time.Second)
		if err := within(2500*time.Millisecond, told); err != nil {
			t.Errorf("after 2.5 s: %v", err)
		}
		f := term.Followers()[1]
		for range 30 { // the session that was broken may have ended last
			if f.State == "failed" {
				break
			}
			<-time.After(100 * time.Millisecond)
			f = term.Followers()[1]
		}
		if f.State != "failed" || !f.Connected {
			t.Errorf("the follower: %+v", f)
		}
		if !n.replica.Damaged() || c.nodes["b"].replica.Damaged() {
			t.Error("c does not know that it is damaged, or b thinks that it is")
		}
		<-time.After(8 * time.Second)
		if got := c.isr(); !slices.Equal(got, three[:2]) {
			t.Errorf("in sync: %v", got)
		}
		if asked > 40 {
			t.Errorf("asked %d times in ten seconds", asked)
		}
	})
}

// markDamaged changes a byte of a text in the files of a replica.
func markDamaged(t *testing.T, fs *vfs.Mem, text string) {
	t.Helper()
	names, err := fs.ReadDir("p")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join("p", name)
		raw, err := vfs.ReadFile(fs, path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(raw, []byte(text))
		if at < 0 {
			continue
		}
		f, err := fs.OpenReadWrite(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{'S'}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in no file", text)
}
