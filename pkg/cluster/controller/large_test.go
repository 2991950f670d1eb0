package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/placement"
)

// largeState has 10,000 partitions in 1,000 topics on 20 nodes.
func largeState(t testing.TB) *meta.State {
	t.Helper()
	const nodes, topics, partitions, replicas = 20, 1000, 10, 3
	s := new(meta.State)
	apply := func(c meta.Command) {
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for i := range nodes {
		apply(meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprintf("node-%02d", i)), Zone: fmt.Sprintf("z%d", i%3)}})
	}
	all := slices.Collect(s.Nodes())
	config := meta.TopicConfig{Partitions: partitions, Replicas: replicas}.WithDefaults(nodes, false)
	for i := range topics {
		assignment, err := placement.Place(all, nil, partitions, replicas)
		if err != nil {
			t.Fatal(err)
		}
		apply(meta.CreateTopic{Name: fmt.Sprintf("topic-%04d", i), Config: config, Assignment: assignment})
	}
	return s
}

func upBut(s *meta.State, dead ...meta.NodeID) Conditions {
	nodes := Conditions{}
	for n := range s.Nodes() {
		if !slices.Contains(dead, n.ID) {
			nodes[n.ID] = Up
		}
	}
	return nodes
}

// The leaders of a dead node are replaced with few commands, evenly. BenchmarkDecide measures the
// time.
func TestTenThousandPartitions(t *testing.T) {
	s := largeState(t)
	nodes := upBut(s, "node-00")
	elections, _ := Elect(s, nodes)
	if moves, _ := moves(s, nodes, Options{}); len(moves) != 0 {
		t.Fatal(moves)
	}
	led := map[meta.NodeID]int{}
	for _, e := range elections {
		led[e.Leader]++
	}
	if len(elections) < 300 || len(elections) > 1000 || led["node-00"] > 0 {
		t.Errorf("%d elections, %v", len(elections), led)
	}
	commands := batches(elections, defaultElections)
	if len(commands) > 2 {
		t.Errorf("%d commands", len(commands))
	}
	for _, c := range commands {
		if b, err := meta.EncodeCommandAt(c, 0); err != nil || len(b) > meta.MaxCommandBytes/4 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	s := largeState(b)
	for name, nodes := range map[string]Conditions{"quiet": upBut(s), "a dead node": upBut(s, "node-00")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Elect(s, nodes)
				moves(s, nodes, Options{})
				toPreferred(s, nodes, nil, 0)
			}
		})
	}
}
