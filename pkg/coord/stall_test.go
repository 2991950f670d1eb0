package coord_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// complaints are a term's reports of followers without progress.
type complaints struct {
	mu   sync.Mutex
	open map[meta.NodeID]string // why; absent: it makes progress
	all  []string
}

func (x *complaints) take(follower meta.NodeID, since time.Time, why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if since.IsZero() {
		delete(x.open, follower)
		return
	}
	x.open[follower] = why
	x.all = append(x.all, why)
}

func (x *complaints) of(follower meta.NodeID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open[follower]
}

// TestStuckFollowerIsReported: whatever stops a follower from getting the
// leader's entries, the term reports it within five seconds, with the reason. It also
// reports the end.
func TestStuckFollowerIsReported(t *testing.T) {
	for _, test := range []struct {
		name      string
		harm, end func(c *cluster)
		why       string
	}{
		{"positions cannot be stored", func(c *cluster) { c.nodes["c"].kept.setBroken(true) }, func(c *cluster) { c.nodes["c"].kept.setBroken(false) }, "failed to store"},
		{
			"the epoch is not adopted", func(c *cluster) {},
			func(c *cluster) { c.tell("c", c.current()) }, "not ready in this epoch",
		},
		{
			"requests arrive nowhere",
			func(c *cluster) { c.net.SetCut("a", "c", true) }, func(c *cluster) { c.net.SetCut("a", "c", false) }, "not connected",
		},
		{
			"there is no connection",
			func(c *cluster) { c.net.Kill("c") },
			func(c *cluster) {
				r := c.nodes["c"].replica
				c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(nil, kind, p, reply) })
			}, "not connected",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, c *cluster) {
				told := complaints{open: map[meta.NodeID]string{}}
				c.stalled = told.take
				test.harm(c)
				names := three
				if strings.Contains(test.name, "adopted") {
					names = []meta.NodeID{"b", "a"}
				}
				term := c.elect("a", names...)
				term.SharePositions([]byte("some"), nil)
				tick(term, 3*time.Second)
				if why := told.of("c"); why != "" {
					t.Errorf("told after three seconds already: %s", why)
				}
				tick(term, 2*time.Second)
				if why := told.of("c"); !strings.Contains(why, test.why) {
					t.Errorf("after five seconds the term says %q of the follower", why)
				}
				if why := told.of("b"); why != "" {
					t.Errorf("of a follower that has everything the term says %q", why)
				}
				test.end(c)
				tick(term, 2*time.Second)
				if why := told.of("c"); why != "" {
					t.Errorf("the follower has everything again, and the term still says %q", why)
				}
			})
		})
	}
}

// TestProgressingFollowerIsNotReported: a follower that is slow, or whose node is
// down, does not stall. A term that ends withdraws its reports.
func TestProgressingFollowerIsNotReported(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		told := complaints{open: map[meta.NodeID]string{}}
		c.stalled = told.take
		term := c.elect("a", three...)
		c.net.SetDelay(func(_, _ meta.NodeID) time.Duration { return 300 * time.Millisecond })
		for range 20 {
			put(term, "m")
			tick(term, 500*time.Millisecond)
		}
		if len(told.all) > 0 {
			t.Errorf("reported slow followers: %q", told.all)
		}
		c.tellTerm(term, func(v *coord.View) {
			v.ISR = []meta.NodeID{"a", "b"}
			v.Replicas = slices.Clone(v.Replicas)
			v.Replicas[2].Down = true
		})
		c.net.Kill("c")
		put(term, "m")
		tick(term, 10*time.Second)
		if len(told.all) > 0 {
			t.Errorf("reported one whose node is known to be down: %q", told.all)
		}
		c.net.SetCut("a", "b", true)
		put(term, "m")
		tick(term, 6*time.Second)
		if told.of("b") == "" {
			t.Error("one that is cut off was not reported")
		}
		if err := c.nodes["a"].replica.StopLeading(); err != nil {
			t.Error(err)
		}
		if why := told.of("b"); why != "" {
			t.Errorf("the term is over, and it still says %q", why)
		}
	})
}
