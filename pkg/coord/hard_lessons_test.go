package coord_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Faults that replicated brokers of this kind have had: see docs/lessons.md.

// brokenPositions is a store of positions that cannot be written.
type brokenPositions struct{}

func (brokenPositions) Replace([]byte) error { return errors.New("no room for positions") }
func (brokenPositions) Update([]byte) error  { return errors.New("no room") }
func (brokenPositions) Cut(seq.Offset) error { return nil }
func (brokenPositions) Advance([]byte) error { return errors.New("no room for positions") }

// A follower's failure to store positions does not affect elections, and delays
// publishing no longer than a stopped follower.
func TestPositionsThatCannotBeStoredStopNoPublish(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *cluster) {
		term := c.elect("a", "a", "b")
		if err := c.nodes["c"].replica.Follow(c.current(), brokenPositions{}); err != nil {
			t.Fatal(err)
		}
		for round := range 10 {
			told := put(term, "m")
			tick(term, 300*time.Millisecond)
			term.SharePositions([]byte("later"), nil)
			tick(term, 300*time.Millisecond)
			for range 24 { // a term without ticks removes no replica from the ISR
				if len(told) == 0 {
					tick(term, 100*time.Millisecond)
				}
			}
			if err := within(0, told); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if c.nodes["a"].replica.Term() != term {
			t.Error("a leads no more")
		}
		if got := c.isr(); !slices.Contains(got, "a") || !slices.Contains(got, "b") {
			t.Errorf("in sync: %v", got)
		}
		c.same("a", "b")
	})
}

// When a publish has failed for a missing resource, the next one succeeds once
// the resource is back.
func TestPublishingContinuesAfterAnyTimeout(t *testing.T) {
	cut := func(c *cluster, on bool, pairs ...[2]meta.NodeID) {
		for _, p := range pairs {
			c.net.SetCut(p[0], p[1], on)
		}
	}
	undecided := func(c *cluster, on bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.decide = nil
		if on {
			c.decide = func(coord.ISRChange) (bool, error) { return false, fate.Mark(errors.New("no answer"), fate.Uncertain) }
		}
	}
	for name, stand := range map[string]func(*cluster, bool){
		"pushes":               func(c *cluster, on bool) { cut(c, on, [2]meta.NodeID{"a", "b"}, [2]meta.NodeID{"a", "c"}) },
		"answers":              func(c *cluster, on bool) { cut(c, on, [2]meta.NodeID{"b", "a"}, [2]meta.NodeID{"c", "a"}) },
		"one, and no metadata": func(c *cluster, on bool) { cut(c, on, [2]meta.NodeID{"c", "a"}); undecided(c, on) },
		"all, and no metadata": func(c *cluster, on bool) {
			cut(c, on, [2]meta.NodeID{"a", "b"}, [2]meta.NodeID{"c", "a"})
			undecided(c, on)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, c *cluster) {
				term := c.elect("a", three...)
				tick(term, time.Second)
				for round := range 3 {
					stand(c, true)
					told := put(term, "in vain")
					tick(term, 7*time.Second)
					if err := within(0, told); !errors.Is(err, failure.Unconfirmed) {
						t.Fatalf("round %d: %v after 7 s", round, err)
					}
					stand(c, false)
					tick(term, 5*time.Second)
					told = put(term, "again")
					tick(term, time.Second)
					if err := within(0, told); err != nil {
						t.Fatalf("round %d: %v after a second", round, err)
					}
					cut(c, true, [2]meta.NodeID{"a", "b"})
					told = put(term, "without b")
					tick(term, 4*time.Second)
					if err := within(0, told); err != nil {
						t.Fatalf("round %d: b is not taken out of the in-sync set: %v", round, err)
					}
					cut(c, false, [2]meta.NodeID{"a", "b"})
					tick(term, 5*time.Second)
				}
				if got := c.isr(); len(got) != 3 {
					t.Errorf("in sync: %v", got)
				}
				tick(term, time.Second)
				c.same(three...)
			})
		})
	}
}
