package coord_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// slowly makes every sync of every node's disk take a millisecond.
func (c *cluster) slowly() {
	for _, n := range c.nodes {
		n.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind != vfs.OpSyncData {
				return vfstest.Fault{}
			}
			done := make(chan struct{})
			time.AfterFunc(time.Millisecond, func() { close(done) })
			return vfstest.Fault{Hang: done}
		})
	}
}

// loaded publishes messages one by one for a while, with the term's ticks, and
// returns how many were committed.
func loaded(t *testing.T, term *coord.Term, producers int, size int, d time.Duration) int {
	t.Helper()
	counts := make(chan int, producers)
	end := time.Now().Add(d)
	for range producers {
		go func() {
			n := 0
			for time.Now().Before(end) {
				if err := <-put(term, strings.Repeat("x", size)); err != nil {
					<-time.After(time.Millisecond)
					continue
				}
				n++
			}
			counts <- n
		}()
	}
	tick(term, d)
	total := 0
	for range producers {
		total += <-counts
	}
	return total
}

// TestFollowerOnSlowLinkLeaves: publishers that wait for each answer are
// slowed down to the follower's speed, so that it never lags in time.
func TestFollowerOnSlowLinkLeaves(t *testing.T) {
	for _, producers := range []int{1, 8} {
		inVirtualTime(t, func(t *testing.T, c *cluster) {
			c.slowly()
			var slow []meta.NodeID
			c.slow = func(id meta.NodeID, since time.Time) {
				if !since.IsZero() {
					slow = append(slow, id)
				}
			}
			term := c.elect("a", three...)
			fast := loaded(t, term, producers, 1000, 5*time.Second)
			if len(c.isr()) != 3 {
				t.Fatalf("%d producers: in sync %v on links of one speed", producers, c.isr())
			}
			c.net.SetRate("a", "c", 125_000)
			held := loaded(t, term, producers, 1000, time.Second)
			if held*5 > fast/3 {
				t.Fatalf("%d producers: %d in 1 s on a slow link, %d in 5 s before: the test shows nothing", producers, held, fast)
			}
			loaded(t, term, producers, 1000, 5*time.Second)
			if slices.Contains(c.isr(), "c") || !slices.Contains(slow, "c") {
				t.Errorf("%d producers: in sync %v, said to be slow %v", producers, c.isr(), slow)
			}
			after := loaded(t, term, producers, 1000, 5*time.Second)
			// The grouping of producers accounts for up to half of the rate. The slow link allows a
			// third.
			if after < fast*2/5 {
				t.Errorf("%d producers: %d in 5 s without the slow one, %d before", producers, after, fast)
			}
			// The follower rejoins when it has caught up, and leaves later each
			// time.
			c.net.SetRate("a", "c", 0)
			tick(term, 30*time.Second) // requests still on the slow link arrive first
			if len(c.isr()) != 3 {
				t.Errorf("%d producers: in sync %v on a link that is fast again", producers, c.isr())
			}
		})
	}
}

// TestNeededSlowFollowerStays: fewer than min ISR would be left. The term
// reports it.
func TestNeededSlowFollowerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "c")
		c.slowly()
		told := 0
		c.slow = func(_ meta.NodeID, since time.Time) {
			if !since.IsZero() {
				told++
			}
		}
		term := c.elect("a", "a", "c")
		c.net.SetRate("a", "c", 125_000)
		loaded(t, term, 4, 1000, 10*time.Second)
		if len(c.isr()) != 2 || told != 1 {
			t.Errorf("in sync %v, said %d times", c.isr(), told)
		}
		c.close()
	})
}

// TestDistantFollowerStays: the latency of its link does not count.
func TestDistantFollowerStays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.slowly()
		c.net.SetDelay(func(from, to meta.NodeID) time.Duration {
			if from == "c" || to == "c" {
				return 40 * time.Millisecond
			}
			return 0
		})
		term := c.elect("a", three...)
		for _, producers := range []int{1, 8} {
			loaded(t, term, producers, 1000, 10*time.Second)
			if len(c.isr()) != 3 {
				t.Errorf("%d producers: in sync %v", producers, c.isr())
			}
		}
	})
}

// TestShortBurstRemovesNoFollower: a follower is repeatedly behind for most of a
// second, and keeps up in between.
func TestShortBurstRemovesNoFollower(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.slowly()
		term := c.elect("a", three...)
		for range 10 {
			c.net.SetRate("a", "c", 125_000)
			loaded(t, term, 4, 1000, 800*time.Millisecond)
			c.net.SetRate("a", "c", 0)
			loaded(t, term, 4, 1000, 2*time.Second)
		}
		for _, change := range c.asked {
			if !slices.Contains(change.ISR, "c") {
				t.Errorf("asked for %+v", change)
			}
		}
	})
}

// TestSlowLinkWithLittleLoadRemovesNoFollower: it takes many times longer than the
// others, but they rarely wait for it.
func TestSlowLinkWithLittleLoadRemovesNoFollower(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.slowly()
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.SetRate("a", "c", 125_000)
		for range 100 {
			put(term, strings.Repeat("x", 1000))
			tick(term, 100*time.Millisecond)
		}
		if len(c.asked) > 0 {
			t.Errorf("asked for %+v", c.asked)
		}
	})
}

// TestSlowFollowerDoesNotFlap: under a load that lets it catch up while it is out of
// sync, and is slowed down while it is in sync, it rejoins later each time.
func TestSlowFollowerDoesNotFlap(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		c.slowly()
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.nodes["c"].fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault { // a slow disk: it catches up many at a time
			if op.Kind != vfs.OpSyncData {
				return vfstest.Fault{}
			}
			done := make(chan struct{})
			time.AfterFunc(20*time.Millisecond, func() { close(done) })
			return vfstest.Fault{Hang: done}
		})
		loaded(t, term, 1, 1000, time.Minute)
		left := 0
		for _, change := range c.asked {
			if !slices.Contains(change.ISR, "c") {
				left++
			}
		}
		if left < 2 || left > 6 {
			t.Errorf("it left %d times in a minute", left)
		}
	})
}

// TestLaggingFollowerLeavesThoughItAcknowledges: with publishers that do
// not wait for answers, it falls behind by more than the lag.
func TestLaggingFollowerLeavesThoughItAcknowledges(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", three...)
		tick(term, time.Second)
		c.net.SetRate("a", "c", 125_000)
		for range 40 {
			for range 20 {
				put(term, strings.Repeat("x", 1000))
			}
			tick(term, 100*time.Millisecond)
		}
		if slices.Contains(c.isr(), "c") {
			t.Errorf("in sync %v", c.isr())
		}
		tick(term, 15*time.Second)
		if len(c.isr()) != 3 {
			t.Errorf("in sync %v when all has arrived", c.isr())
		}
	})
}
