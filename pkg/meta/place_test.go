package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPlace(t *testing.T) {
	up := func(id, zone string) *Node { return &Node{ID: NodeID(id), Zone: zone, State: NodeUp} }
	for _, test := range []struct {
		name                 string
		nodes                []*Node
		load                 map[NodeID]Load
		partitions, replicas int
		want                 [][]NodeID
	}{
		{"one node", []*Node{up("a", "")}, nil, 2, 1, [][]NodeID{{"a"}, {"a"}}},
		{"leaders go round", []*Node{up("a", ""), up("b", ""), up("c", "")}, nil, 3, 3, [][]NodeID{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}}},
		{"zones first", []*Node{up("a", "1"), up("b", "1"), up("c", "2")}, map[NodeID]Load{"c": {Replicas: 9}}, 2, 2, [][]NodeID{{"a", "c"}, {"b", "c"}}},
		{"the less loaded", []*Node{up("a", ""), up("b", "")}, map[NodeID]Load{"a": {Replicas: 1, Leaders: 1}}, 1, 1, [][]NodeID{{"b"}}},
		{"then bytes", []*Node{up("a", ""), up("b", "")}, map[NodeID]Load{"a": {Bytes: 1}}, 1, 1, [][]NodeID{{"b"}}},
		{"not down, not draining", []*Node{{ID: "a", State: NodeDown}, {ID: "b", State: NodeDraining}, up("c", "")}, nil, 1, 1, [][]NodeID{{"c"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Place(test.nodes, test.load, test.partitions, test.replicas)
			if d := cmp.Diff(test.want, got); d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
	for _, replicas := range []int{0, 2} {
		if _, err := Place([]*Node{up("a", "")}, nil, 1, replicas); !errors.Is(err, ErrTooFewNodes) {
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
		var nodes []*Node
		zoneOf := map[NodeID]string{}
		used := map[string]bool{}
		for i := range n {
			z := fmt.Sprint(rapid.IntRange(1, zones).Draw(t, "zone"))
			nodes = append(nodes, &Node{ID: NodeID(fmt.Sprint(i)), Zone: z, State: NodeUp})
			zoneOf[nodes[i].ID], used[z] = z, true
		}
		got, err := Place(nodes, nil, partitions, replicas)
		if err != nil {
			t.Fatal(err)
		}
		held, leads := map[NodeID]int{}, map[NodeID]int{}
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

func spread(t *rapid.T, what string, nodes []*Node, count map[NodeID]int, limit int) {
	low, high := 1<<30, 0
	for _, n := range nodes {
		low, high = min(low, count[n.ID]), max(high, count[n.ID])
	}
	if high-low > limit {
		t.Fatalf("%s: from %d to %d: %v", what, low, high, count)
	}
}

func TestLoadCountsReplicasAndPreferredLeaders(t *testing.T) {
	var s State
	for i, c := range []Command{
		NodeStarted{Node: Node{ID: "a"}},
		NodeStarted{Node: Node{ID: "b"}},
		CreateTopic{"t", TopicConfig{Partitions: 2, Replicas: 2}.WithDefaults(2, false), [][]NodeID{{"a", "b"}, {"a", "b"}}},
	} {
		if r := s.Apply(uint64(i+1), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	want := map[NodeID]Load{"a": {Replicas: 2, Leaders: 2}, "b": {Replicas: 2}}
	if d := cmp.Diff(want, s.Load()); d != "" {
		t.Error(d)
	}
}
