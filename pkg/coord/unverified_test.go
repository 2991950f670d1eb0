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
