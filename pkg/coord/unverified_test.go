package coord_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// restart closes a replica and opens it from its disk. It has no role yet.
func (c *cluster) restart(id meta.NodeID) {
	c.t.Helper()
	n := c.nodes[id]
	if err := n.replica.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.start(id, n.disk)
}

// TestLeaderFromDiskComparesBeforeAdmitting: its disk may lack messages
// that the in-sync set has committed, and a joiner that equals it would lack them
// too.
func TestLeaderFromDiskComparesBeforeAdmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "c")
		c.decide = func(coord.ISRChange) (bool, error) { return false, nil }
		term := c.elect("a", three...)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		c.restart("a")
		c.net.Kill("c")
		c.mu.Lock()
		c.asked = nil
		c.mu.Unlock()
		term = c.elect("a", "a", "b")
		tick(term, 5*time.Second)
		c.mu.Lock()
		if len(c.asked) > 0 {
			t.Errorf("asked for %+v, and c may hold more", c.asked)
		}
		c.mu.Unlock()
		c.close()
	})
}

// TestComparedFollowerIsNotVerified: a replica that was compared with a leader
// may lack what that leader was about to send. When it leads next, it appends nothing
// before an in-sync replica has been compared with it.
func TestComparedFollowerIsNotVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, three...)
		term := c.elect("a", three...)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		c.restart("b")
		term = c.elect("a", three...)
		tick(term, time.Second) // b is compared
		c.net.Kill("a")
		c.net.Kill("c")
		term = c.elect("b", "b")
		end := c.nodes["b"].replica.Log().End()
		if err := within(time.Second, put(term, "n")); !errors.Is(err, errWaiting) {
			t.Errorf("a publish was answered %v", err)
		}
		if got := c.nodes["b"].replica.Log().End(); got != end {
			t.Errorf("the log went from %d to %d before a comparison", end, got)
		}
		c.close()
	})
}

// TestFollowerKeepsCommittedEntries: followers of a leader that lost its log do not
// truncate committed entries. They refuse the leader, and do not count as damaged.
func TestFollowerKeepsCommittedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, three...)
		term := c.elect("a", three...)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		tick(term, time.Second) // the others learn that it is committed
		if err := c.nodes["a"].replica.Close(); err != nil {
			t.Fatal(err)
		}
		c.start("a", vfs.NewCrashable())
		term = c.elect("a", three...)
		tick(term, time.Second)
		for _, id := range []meta.NodeID{"b", "c"} {
			r := c.nodes[id].replica
			if r.Log().End() != 1 || !r.Refusing() || r.Damaged() {
				t.Errorf("%s has %d records, refuses: %v, is damaged: %v", id, r.Log().End(), r.Refusing(), r.Damaged())
			}
		}
		c.close()
	})
}

// TestLeaderThatWasNotComparedStaysUnverified: a term that ended before an in-sync replica was
// compared with it says nothing about the log. The next one compares, too.
func TestLeaderThatWasNotComparedStaysUnverified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, three...)
		term := c.elect("a", three...)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		tick(term, time.Second) // the others learn that it is committed
		c.restart("a")
		if l := c.nodes["a"].replica.Log(); l.CommittedEnd() != l.End() {
			t.Fatalf("%d of %d are committed", l.CommittedEnd(), l.End())
		}
		c.net.Kill("b")
		c.net.Kill("c")
		for range 2 {
			term = c.elect("a", "a")
			tick(term, time.Second)
			if err := within(time.Second, put(term, "n")); !errors.Is(err, errWaiting) {
				t.Errorf("a publish was answered %v", err)
			}
			if end := c.nodes["a"].replica.Log().End(); end != 1 {
				t.Fatalf("the log goes to %d before a comparison", end)
			}
		}
		c.close()
	})
}

// TestLeaderThatCommittedNothingStaysUnverified: a term in which one replica was compared, and
// which ended before all in-sync replicas held what it inherited, says nothing about the others.
func TestLeaderThatCommittedNothingStaysUnverified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, three...)
		c.decide = func(coord.ISRChange) (bool, error) { return false, nil }
		term := c.elect("a", three...)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		tick(term, time.Second)
		c.net.Kill("b")
		c.net.Kill("c")
		if err := within(time.Second, put(term, "n")); !errors.Is(err, errWaiting) {
			t.Fatal(err)
		}
		c.restart("a")
		c.restart("b")
		term = c.elect("a", "a", "b")
		tick(term, 2*time.Second)
		a, b := c.nodes["a"].replica.Log(), c.nodes["b"].replica.Log()
		if a.End() != 2 || b.End() != 2 || a.CommittedEnd() != 1 {
			t.Fatalf("a holds %d and b %d, and %d are committed without c", a.End(), b.End(), a.CommittedEnd())
		}
		c.net.Kill("b")
		term = c.elect("a", "a")
		tick(term, time.Second)
		if err := within(time.Second, put(term, "o")); !errors.Is(err, errWaiting) || a.End() != 2 {
			t.Errorf("a publish was answered %v, and the log ends at %d", err, a.End())
		}
		c.close()
	})
}
