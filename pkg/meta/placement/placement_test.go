package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestPlace(t *testing.T) {
	up := func(id, zone string) *meta.Node {
		return &meta.Node{ID: meta.NodeID(id), Zone: zone, State: meta.NodeUp}
	}
	for _, test := range []struct {
		name                 string
		nodes                []*meta.Node
		load                 map[meta.NodeID]meta.Load
		partitions, replicas int
		want                 [][]meta.NodeID
	}{
		{"one node", []*meta.Node{up("a", "")}, nil, 2, 1, [][]meta.NodeID{{"a"}, {"a"}}},
		{"leaders go round", []*meta.Node{up("a", ""), up("b", ""), up("c", "")}, nil, 3, 3, [][]meta.NodeID{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}}},
		{"zones first", []*meta.Node{up("a", "1"), up("b", "1"), up("c", "2")}, map[meta.NodeID]meta.Load{"c": {Replicas: 9}}, 2, 2, [][]meta.NodeID{{"a", "c"}, {"b", "c"}}},
		{"the less loaded", []*meta.Node{up("a", ""), up("b", "")}, map[meta.NodeID]meta.Load{"a": {Replicas: 1, Leaders: 1}}, 1, 1, [][]meta.NodeID{{"b"}}},
		{"then bytes", []*meta.Node{up("a", ""), up("b", "")}, map[meta.NodeID]meta.Load{"a": {Bytes: 1}}, 1, 1, [][]meta.NodeID{{"b"}}},
		{"not down, not draining", []*meta.Node{{ID: "a", State: meta.NodeDown}, {ID: "b", State: meta.NodeDraining}, up("c", "")}, nil, 1, 1, [][]meta.NodeID{{"c"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Place(test.nodes, test.load, test.partitions, test.replicas)
			if d := cmp.Diff(test.want, got); d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
	drains := func(id string) *meta.Node {
		return &meta.Node{ID: meta.NodeID(id), State: meta.NodeDraining, Intent: meta.IntentDrain}
	}
	leaves := &meta.Node{ID: "c", State: meta.NodeDraining, Intent: meta.IntentDecommission}
	for _, test := range []struct {
		name                 string
		nodes                []*meta.Node
		partitions, replicas int
		want                 [][]meta.NodeID
	}{
		{"one of three drains", []*meta.Node{drains("a"), up("b", ""), up("c", "")}, 3, 3, [][]meta.NodeID{{"b", "c", "a"}, {"c", "b", "a"}, {"b", "c", "a"}}},
		{"one of two drains", []*meta.Node{drains("a"), up("b", "")}, 2, 2, [][]meta.NodeID{{"b", "a"}, {"b", "a"}}},
		{"one can be spared", []*meta.Node{drains("a"), up("b", ""), up("c", "")}, 1, 2, [][]meta.NodeID{{"b", "c"}}},
		{"the only one drains", []*meta.Node{drains("a")}, 1, 1, [][]meta.NodeID{{"a"}}},
		{"all drain", []*meta.Node{drains("a"), drains("b")}, 2, 2, [][]meta.NodeID{{"a", "b"}, {"b", "a"}}},
	} {
		got, err := Place(test.nodes, nil, test.partitions, test.replicas)
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Error(test.name, d, err)
		}
	}
	if _, err := Place([]*meta.Node{up("a", ""), up("b", ""), leaves}, nil, 1, 3); !errors.Is(err, failure.TooFewNodes) {
		t.Errorf("on a node that leaves for good: %v", err)
	}
	for _, replicas := range []int{0, 2} {
		if _, err := Place([]*meta.Node{up("a", "")}, nil, 1, replicas); !errors.Is(err, failure.TooFewNodes) {
			t.Errorf("%d replicas on one node: %v", replicas, err)
		}
	}
}

func TestPlacementProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		zones := rapid.IntRange(1, 4).Draw(t, "zones")
		replicas := rapid.IntRange(1, min(n, 5)).Draw(t, "replicas")
		partitions := rapid.IntRange(0, 40).Draw(t, "partitions")
		var nodes []*meta.Node
		zoneOf := map[meta.NodeID]string{}
		used := map[string]bool{}
		for i := range n {
			z := fmt.Sprint(rapid.IntRange(1, zones).Draw(t, "zone"))
			nodes = append(nodes, &meta.Node{ID: meta.NodeID(fmt.Sprint(i)), Zone: z, State: meta.NodeUp})
			zoneOf[nodes[i].ID], used[z] = z, true
		}
		got, err := Place(nodes, nil, partitions, replicas)
		if err != nil {
			t.Fatal(err)
		}
		held, leads := map[meta.NodeID]int{}, map[meta.NodeID]int{}
		for i, ids := range got {
			in := map[string]bool{}
			for k, id := range ids {
				if slices.Contains(ids[:k], id) {
					t.Fatalf("partition %d: %v", i, ids)
				}
				in[zoneOf[id]] = true
				held[id]++
			}
			leads[ids[0]]++
			if len(ids) != replicas || len(in) != min(replicas, len(used)) {
				t.Fatalf("partition %d: %v in zones %v of %v", i, ids, in, used)
			}
		}
		if len(used) == 1 { // nothing but balance decides
			spread(t, "replicas", nodes, held, 1)
			spread(t, "leaders", nodes, leads, 1)
		}
		shuffled := slices.Clone(nodes)
		rand.New(rand.NewPCG(1, uint64(n))).Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again, err := Place(shuffled, nil, partitions, replicas); err != nil || !cmp.Equal(got, again) {
			t.Fatalf("another order of nodes, another answer: %v, %v", again, err)
		}
	})
}

func spread(t *rapid.T, what string, nodes []*meta.Node, count map[meta.NodeID]int, limit int) {
	low, high := 1<<30, 0
	for _, n := range nodes {
		low, high = min(low, count[n.ID]), max(high, count[n.ID])
	}
	if high-low > limit {
		t.Fatalf("%s: from %d to %d: %v", what, low, high, count)
	}
}
