package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// cluster is a Cluster whose nodes are controlled by the test.
type cluster struct {
	latency time.Duration // of a proposal

	mu       sync.Mutex // guards the fields below
	state    meta.State
	nodes    map[meta.NodeID]behaviour
	observed []string
	stuck    bool // proposals never end
}

func (c *cluster) State() *meta.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Snapshot()
}

func (c *cluster) Propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	c.mu.Lock()
	stuck := c.stuck
	c.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return meta.Result{}, context.Cause(ctx)
	}
	time.Sleep(c.latency)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.state.Apply(c.state.Index()+1, command)
	return r, r.Err
}

func (c *cluster) Probe(ctx context.Context, n *meta.Node) (uint64, error) {
	c.mu.Lock()
	how := c.nodes[n.ID]
	c.mu.Unlock()
	switch how {
	case answers:
		return n.Incarnation, nil
	case refuses:
		return 0, fmt.Errorf("dial: %w", ErrRefusedConnection)
	case silent:
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

func (c *cluster) Skews() map[meta.NodeID]time.Duration { return nil }

func (c *cluster) Voters() []meta.NodeID { return ids("n1,n2,n3") }

func (c *cluster) Isolated() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.observed); n == 0 || c.observed[n-1] != "isolated" {
		c.observed = append(c.observed, "isolated")
	}
}

func (c *cluster) Observe(d Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range d.Verdicts {
		c.observed = append(c.observed, fmt.Sprintf("%s %v", v.Node, v.Alive))
	}
	for _, t := range d.Troubles {
		c.observed = append(c.observed, fmt.Sprintf("%s %v", t.Kind, t.Nodes))
	}
	if len(d.Commands)+len(d.Troubles) == 0 {
		c.observed = append(c.observed, "well")
	}
}

func (c *cluster) behave(id meta.NodeID, how behaviour) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[id] = how
}

func (c *cluster) leader() meta.NodeID { return c.State().Topic("t").Partitions[0].Leader }

// newCluster has three nodes and a topic that n2 leads.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{latency: 2 * time.Millisecond, nodes: map[meta.NodeID]behaviour{}}
	config := meta.TopicConfig{Partitions: 1, Replicas: 3, MinISR: 2}.WithDefaults(3, false)
	for i, command := range []meta.Command{
		meta.NodeStarted{Node: meta.Node{ID: "n1"}},
		meta.NodeStarted{Node: meta.Node{ID: "n2"}},
		meta.NodeStarted{Node: meta.Node{ID: "n3"}},
		meta.CreateTopic{Name: "t", Config: config, Assignment: [][]meta.NodeID{{"n2", "n3", "n1"}}},
	} {
		if r := c.state.Apply(uint64(i+1), command); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return c
}

// running calls f while a Loop runs, and waits for the Loop to end.
func running(t *testing.T, c *cluster, f func(changed chan<- struct{})) {
	t.Helper()
	changed := make(chan struct{}, 1)
	l := Loop{Self: "n1", Cluster: c, Changed: changed}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("leads no more")
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	f(changed)
	cancel(over)
	if err := <-done; !errors.Is(err, over) {
		t.Error(err)
	}
}

func TestLoopElectsWithinProbeAndConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		running(t, c, func(chan<- struct{}) {
			time.Sleep(3*time.Second + 123*time.Millisecond)
			c.behave("n2", refuses)
			killed := time.Now()
			for c.leader() != "n3" {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(killed); took > probeEvery+confirmAfter+3*c.latency {
				t.Errorf("took %v", took)
			}
			c.behave("n2", answers)
			time.Sleep(balanceAfter + 2*time.Second)
			if c.leader() != "n2" || c.State().Node("n2").State != meta.NodeUp {
				t.Errorf("led by %s", c.leader())
			}
		})
		if got := fmt.Sprint(c.observed); got != "[n2 false n2 true]" {
			t.Error(got)
		}
	})
}

func TestLoopTransfersOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		running(t, c, func(changed chan<- struct{}) {
			time.Sleep(time.Second + 77*time.Millisecond)
			if _, err := c.Propose(t.Context(), meta.SetNodeIntent{ID: "n2", Intent: meta.IntentDrain}); err != nil {
				t.Fatal(err)
			}
			changed <- struct{}{}
			time.Sleep(c.latency + time.Millisecond)
			if c.leader() == "n2" {
				t.Error("still led by n2")
			}
		})
	})
}

// Probes continue while a proposal hangs, and the loop can still be stopped.
func TestLoopSurvivesHungProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		running(t, c, func(chan<- struct{}) {
			time.Sleep(time.Second)
			c.mu.Lock()
			c.stuck = true
			c.mu.Unlock()
			c.behave("n3", silent)
			time.Sleep(30 * time.Second)
		})
		if got := fmt.Sprint(c.observed); got != "[n3 false]" {
			t.Error(got)
		}
	})
}

// A leader of the metadata whose probes reach no majority takes nobody for dead: its own path is at fault. A
// connection that is refused twice is no silence.
func TestIsolatedControllerTakesNobodyForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		running(t, c, func(chan<- struct{}) {
			time.Sleep(time.Second)
			c.behave("n2", silent)
			time.Sleep(300 * time.Millisecond)
			c.behave("n3", silent)
			time.Sleep(10 * time.Second)
			c.behave("n3", answers)
			time.Sleep(time.Second)
			c.behave("n3", silent)
			time.Sleep(5 * time.Second)
			c.behave("n3", refuses)
			time.Sleep(5 * time.Second)
		})
		if got := fmt.Sprint(c.observed); got != "[isolated n2 false isolated n3 false isolated]" {
			t.Error(got)
		}
	})
}

// A problem is reported once, and so is its end.
func TestLoopReportsProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		want := func(intent meta.NodeIntent) {
			if _, err := c.Propose(t.Context(), meta.SetNodeIntent{ID: "n1", Intent: intent}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		running(t, c, func(chan<- struct{}) {
			want(meta.IntentDecommission) // three replicas, and no fourth node
			want(meta.IntentNone)
		})
		if got := fmt.Sprint(c.observed); got != "[no_room [n1] well]" {
			t.Error(got)
		}
	})
}
