package controller

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// chaos causes random events in a world.
type chaos struct {
	*rand.Rand
	*world
}

func newChaos(t testing.TB, seed, round uint64) *chaos {
	c := &chaos{rand.New(rand.NewPCG(seed, round)), newWorld(t, Options{MovesPerNode: 2, Moves: 5, BalanceBatch: 4, Elections: 3})}
	for i := range 3 + c.IntN(4) {
		c.start(meta.NodeID(fmt.Sprintf("n%d", i)), fmt.Sprintf("z%d", i%(1+c.IntN(3))))
	}
	for i := range 1 + c.IntN(4) {
		replicas := 1 + c.IntN(3)
		var assignment [][]meta.NodeID
		for range 1 + c.IntN(4) {
			assignment = append(assignment, c.some(replicas))
		}
		if name := fmt.Sprintf("t%d", i); c.IntN(2) == 0 {
			c.topic(name, 1, assignment)
		} else {
			c.openTopic(name, assignment)
		}
	}
	c.core = newCore(c.opts, "n0", c.clock())
	return c
}

// some returns n nodes of the metadata, in random order.
func (c *chaos) some(n int) []meta.NodeID {
	var all []meta.NodeID
	for n := range c.state.Nodes() {
		all = append(all, n.ID)
	}
	c.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:n]
}

func (c *chaos) any() meta.PartitionID {
	t := c.state.Topic(fmt.Sprintf("t%d", c.IntN(c.state.TopicCount())))
	return meta.PartitionID{Topic: t.Name, Partition: c.IntN(len(t.Partitions))}
}

// happen causes one event.
func (c *chaos) happen() {
	id := c.some(1)[0]
	switch c.IntN(16) {
	case 0, 1:
		c.nodes[id] = refuses
	case 2, 3:
		c.nodes[id] = silent
	case 4, 5:
		c.nodes[id] = answers
	case 6:
		c.start(id, c.state.Node(id).Zone)
	case 7, 8:
		c.follow()
	case 9:
		c.apply(meta.SetNodeIntent{ID: id, Intent: []meta.NodeIntent{"", meta.IntentDrain, meta.IntentDecommission}[c.IntN(3)]})
	case 10:
		p := c.any()
		target := c.some(min(c.state.NodeCount(), 1+c.IntN(3)))
		if m, err := PlanMove(&c.state, c.core.Conditions(&c.state), c.opts, p, target); err == nil {
			c.apply(m)
		}
	case 11:
		if m, err := PlanCancel(&c.state, c.any()); err == nil {
			c.apply(m)
		}
	case 12:
		c.core = newCore(c.opts, id, c.clock())
		c.next = c.now
	case 13:
		c.now += time.Duration(c.IntN(5000)) * time.Millisecond
	case 14:
		if c.lossy = nil; c.IntN(2) == 0 {
			c.lossy = func() bool { return c.IntN(3) == 0 }
		}
	case 15:
		c.start(meta.NodeID(fmt.Sprintf("n%d", c.IntN(8))), "z0")
	}
	c.run(time.Duration(c.IntN(1500)) * time.Millisecond)
}

// heal repairs everything, and withdraws all intents.
func (c *chaos) heal() {
	c.lossy = nil
	for n := range c.state.Snapshot().Nodes() {
		c.nodes[n.ID] = answers
		c.apply(meta.SetNodeIntent{ID: n.ID})
	}
}

// ill describes deviations from a healthy cluster.
func (c *chaos) ill() string {
	for n := range c.state.Nodes() {
		if n.State != meta.NodeUp {
			return fmt.Sprintf("%s is %s", n.ID, n.State)
		}
	}
	for t := range c.state.Topics() {
		for i, p := range t.Partitions {
			if p.Leader != p.Replicas[0] || len(p.ISR) != len(p.Replicas) || p.Moving() {
				return fmt.Sprintf("%s/%d is %+v", t.Name, i, p)
			}
			if len(p.Replicas) < t.Config.Replicas && t.Config.AutoReplicas {
				return fmt.Sprintf("%s/%d is to have %d replicas: %+v", t.Name, i, t.Config.Replicas, p)
			}
		}
		if c := t.Config; c.AutoReplicas && c.Replicas != 3 || c.AutoMinISR && c.MinISR != meta.DefaultMinISR(c.Replicas) {
			return fmt.Sprintf("%s is %+v", t.Name, c)
		}
	}
	return ""
}

// After any events, leaders come from the in-sync set, an epoch has one leader, and no good replica
// is removed early (world checks this at every command). After everything is repaired, the cluster
// soon returns to its preferred state automatically.
func TestRandomClustersHeal(t *testing.T) {
	seed := testrand.Seed(t)
	const limit = 90 * time.Second // hold, calm, and some rounds of balancing
	for round := range uint64(150) {
		c := newChaos(t, seed, round)
		for range 60 {
			c.happen()
		}
		c.heal()
		c.run(2 * DefaultSessionTimeout) // until the last silent node is detected
		for until := c.now + limit; c.ill() != "" && c.now < until; {
			c.run(100 * time.Millisecond)
			c.follow()
		}
		if what := c.ill(); what != "" {
			t.Fatalf("round %d: after %v: %s\n%s", round, limit, what, tail(c.log.String()))
		}
		// No further decisions follow.
		index := c.state.Index()
		c.run(30 * time.Second)
		if c.state.Index() != index {
			t.Fatalf("round %d: no peace\n%s", round, tail(c.log.String()))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// A decommissioned node is finally empty if others have room, whether it is dead or alive.
func TestRandomDecommissionsEnd(t *testing.T) {
	seed := testrand.Seed(t)
	for round := range uint64(100) {
		c := newChaos(t, seed, round)
		for i := range 3 {
			c.start(meta.NodeID(fmt.Sprintf("more%d", i)), "z9")
		}
		c.run(time.Second)
		if gone := meta.NodeID("n1"); c.IntN(2) == 0 {
			c.nodes[gone] = refuses
		}
		c.run(time.Second)
		c.follow()
		c.apply(meta.SetNodeIntent{ID: "n1", Intent: meta.IntentDecommission})
		for until := c.now + time.Minute; c.now < until; {
			if c.IntN(10) == 0 {
				c.core, c.next = newCore(c.opts, "n0", c.clock()), c.now
			}
			c.run(100 * time.Millisecond)
			c.checkLimits()
			c.follow()
		}
		partitions(&c.state, func(id meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
			if (slices.Contains(p.Replicas, "n1") || p.Moving()) && !slices.Equal(p.ISR, ids("n1")) {
				t.Fatalf("round %d: %v: %+v\n%s", round, id, p, tail(c.log.String()))
			}
			return true
		})
		if r := c.apply(meta.RemoveNode{ID: "n1"}); (r.Err == nil) != (Remaining(&c.state, "n1") == 0) {
			t.Fatalf("round %d: %v with %d left", round, r.Err, Remaining(&c.state, "n1"))
		}
	}
}

// checkLimits checks that no more replicas are being copied than allowed.
func (c *chaos) checkLimits() {
	c.t.Helper()
	all, to := 0, map[meta.NodeID]int{}
	partitions(&c.state, func(_ meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if p.Leader == "" {
			return true // nothing is copied
		}
		if p.Moving() {
			all++
		}
		for _, id := range p.Adding {
			if to[id]++; to[id] > c.opts.MovesPerNode {
				c.t.Fatalf("%d to %s", to[id], id)
			}
		}
		return true
	})
	if all > c.opts.Moves {
		c.t.Fatalf("%d moves", all)
	}
}

// decisions returns all decisions that are possible in a state.
func decisions(s *meta.State, nodes Conditions, o Options) []any {
	elections, offline := Elect(s, nodes)
	moves, stuck := moves(s, nodes, o)
	steady := map[meta.NodeID]bool{}
	for id := range nodes {
		steady[id] = true
	}
	all := []any{elections, offline, moves, stuck, toPreferred(s, nodes, steady, 0), PlanBalance(s, nodes, 50)}
	for n := range s.Nodes() {
		all = append(all, Handover(s, nodes, n.ID, reasonRestart), fmt.Sprint(CheckDrain(s, nodes, n.ID, true)))
	}
	return all
}

// The same input gives the same answer. A decision made twice takes effect once: the second time
// each command is refused, and nothing changes.
func TestDecidingTwice(t *testing.T) {
	seed := testrand.Seed(t)
	for round := range uint64(100) {
		c := newChaos(t, seed, round)
		for range 25 {
			c.happen()
		}
		for id := range c.nodes { // more decisions
			if c.IntN(3) == 0 {
				c.apply(meta.SetNodeIntent{ID: id, Intent: meta.IntentDecommission})
			}
		}
		nodes := c.core.Conditions(&c.state)
		first := decisions(&c.state, nodes, c.opts)
		for range 3 {
			again := Conditions{} // with another internal order
			maps.Copy(again, nodes)
			if d := cmp.Diff(first, decisions(c.state.Snapshot(), again, c.opts)); d != "" {
				t.Fatalf("round %d: %s", round, d)
			}
		}
		elections, _ := Elect(&c.state, nodes)
		moves, _ := moves(&c.state, nodes, c.opts)
		for _, commands := range [][]meta.Command{batches(elections, 100), moves} {
			s := c.state.Snapshot()
			for i := range 2 {
				for _, command := range commands {
					r := s.Apply(s.Index()+1, command)
					if i == 0 && (r.Err != nil || r.Failed != nil) {
						t.Fatalf("round %d: %+v: %v %v", round, command, r.Err, r.Failed)
					}
					if i == 1 && !allStale(r) {
						t.Fatalf("round %d: twice: %+v: %v %v", round, command, r.Err, r.Failed)
					}
				}
			}
		}
	}
}

func allStale(r meta.Result) bool {
	if r.Err != nil {
		return errors.Is(r.Err, failure.StaleVersion)
	}
	return r.Failed != nil && !slices.ContainsFunc(r.Failed, func(err error) bool { return !errors.Is(err, failure.StaleVersion) })
}

// Balancing ends soon, with valid commands, and with numbers of replicas that differ by at most
// one, unless zones prevent that.
func TestPlannedBalanceIsEven(t *testing.T) {
	seed := testrand.Seed(t)
	for round := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, round))
		w := newWorld(t, Options{})
		var old []meta.NodeID
		for i := range 2 + r.IntN(3) {
			old = append(old, meta.NodeID(fmt.Sprintf("n%d", i)))
			w.start(old[i], "")
		}
		var assignment [][]meta.NodeID
		for range 1 + r.IntN(60) {
			r.Shuffle(len(old), func(i, k int) { old[i], old[k] = old[k], old[i] })
			assignment = append(assignment, slices.Clone(old[:2]))
		}
		w.topic("t", 1, assignment)
		w.start("new1", "")
		w.start("new2", "")
		w.core = newCore(w.opts, "n0", w.clock())
		w.run(100 * time.Millisecond)
		nodes := w.core.Conditions(&w.state)
		for plans := 0; ; plans++ {
			moves := PlanBalance(&w.state, nodes, 1000)
			if len(moves) == 0 {
				break
			}
			for _, m := range moves {
				if r := w.apply(m.Command()); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			if d := PlanBalance(&w.state, nodes, 1000); len(d) > 0 && plans > 3 {
				t.Fatalf("round %d: no end: %+v", round, d)
			}
			w.follow()
			w.run(2 * time.Second)
		}
		low, high := 1<<30, 0
		for id, load := range w.state.Load() {
			if low, high = min(low, load.Replicas), max(high, load.Replicas); nodes[id] != Up {
				t.Fatal(id)
			}
		}
		if high-low > 1 {
			t.Fatalf("round %d: %v", round, w.state.Load())
		}
	}
}
