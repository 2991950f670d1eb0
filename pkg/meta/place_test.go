package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/brokerd/brokerd/pkg/fate"
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
	drains := func(id string) *Node { return &Node{ID: NodeID(id), State: NodeDraining, Intent: IntentDrain} }
	leaves := &Node{ID: "c", State: NodeDraining, Intent: IntentDecommission}
	for _, test := range []struct {
		name                 string
		nodes                []*Node
		partitions, replicas int
		want                 [][]NodeID
	}{
		{"one of three drains", []*Node{drains("a"), up("b", ""), up("c", "")}, 3, 3, [][]NodeID{{"b", "c", "a"}, {"c", "b", "a"}, {"b", "c", "a"}}},
		{"one of two drains", []*Node{drains("a"), up("b", "")}, 2, 2, [][]NodeID{{"b", "a"}, {"b", "a"}}},
		{"one can be spared", []*Node{drains("a"), up("b", ""), up("c", "")}, 1, 2, [][]NodeID{{"b", "c"}}},
		{"the only one drains", []*Node{drains("a")}, 1, 1, [][]NodeID{{"a"}}},
		{"all drain", []*Node{drains("a"), drains("b")}, 2, 2, [][]NodeID{{"a", "b"}, {"b", "a"}}},
	} {
		got, err := Place(test.nodes, nil, test.partitions, test.replicas)
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Error(test.name, d, err)
		}
	}
	if _, err := Place([]*Node{up("a", ""), up("b", ""), leaves}, nil, 1, 3); !errors.Is(err, ErrTooFewNodes) {
		t.Errorf("on a node that leaves for good: %v", err)
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

// grownState is a cluster of three nodes that had one when its topics were made:
// "open", of which nothing was said, and "fixed", of which all was.
func grownState(t *testing.T) *State {
	t.Helper()
	var s State
	for i, c := range []Command{
		NodeStarted{Node: Node{ID: "n1"}},
		CreateTopic{"open", TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}},
		CreateTopic{"fixed", TopicConfig{Replicas: 1, MinISR: 1}.WithDefaults(1, false), [][]NodeID{{"n1"}}},
		NodeStarted{Node: Node{ID: "n2"}},
		NodeStarted{Node: Node{ID: "n3"}},
		CreateTopic{"loose", TopicConfig{Replicas: 3, MinISR: 1}.WithDefaults(3, false), [][]NodeID{{"n1", "n2", "n3"}}},
	} {
		if r := s.Apply(uint64(i+1), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return &s
}

func TestFitTopic(t *testing.T) {
	s := grownState(t)
	apply := func(c Command) error { return s.Apply(s.Index()+1, c).Err }
	fit := func(name string, replicas, minISR int) error {
		return apply(FitTopic{Name: name, Incarnation: s.Topic(name).Incarnation, Replicas: replicas, MinISR: minISR})
	}
	for name, err := range map[string]error{
		"a number that was asked for":  fit("fixed", 3, 0),
		"a min ISR that was asked for": fit("loose", 0, 2),
		"more than the nodes":          fit("open", 4, 0),
		"not more":                     fit("open", 1, 0),
		"a min ISR above the copies":   fit("open", 3, 2),
		"of another incarnation":       apply(FitTopic{Name: "open", Incarnation: 99, Replicas: 3}),
	} {
		if fate.Of(err) != fate.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := fit("open", 3, 0); err != nil || s.Topic("open").Config.Replicas != 3 || s.Topic("open").Config.MinISR != 1 {
		t.Fatalf("%v: %+v", err, s.Topic("open").Config)
	}
	if err := fit("open", 0, 2); !errors.Is(err, errInvalidISR) {
		t.Errorf("a min ISR that stops publishes: %v", err)
	}
	for _, c := range []Command{
		StartReassign{Topic: "open", Version: 1, Target: []NodeID{"n1", "n2", "n3"}},
		AlterISR{Topic: "open", Epoch: 1, Version: 2, ISR: []NodeID{"n1", "n2"}},
	} {
		if err := apply(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := fit("open", 0, 2); err != nil || s.Topic("open").Config.MinISR != 2 {
		t.Errorf("%v: %+v", err, s.Topic("open").Config)
	}
	one := 1
	if err := apply(AlterTopic{Name: "open", Patch: TopicPatch{Replicas: &one}}); err != nil {
		t.Fatal(err)
	}
	if c := s.Topic("open").Config; c.AutoReplicas || c.Replicas != 1 || c.MinISR != 1 || !c.AutoMinISR {
		t.Errorf("one replica was asked for: %+v", c)
	}
}

// TestCreatingATopicAgain asks for topics that are there, once the cluster has
// grown.
func TestCreatingATopicAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		config TopicConfig
		same   bool
	}{
		{"open", TopicConfig{}, true},
		{"open", TopicConfig{Replicas: 1}, false}, // it is about to get three
		{"open", TopicConfig{Replicas: 3}, false}, // not yet
		{"fixed", TopicConfig{}, true},
		{"fixed", TopicConfig{Replicas: 1, MinISR: 1}, true},
		{"fixed", TopicConfig{Replicas: 2}, false},
		{"open", TopicConfig{Partitions: 2}, false},
	} {
		s := grownState(t)
		c := test.config.WithDefaults(3, false)
		r := s.Apply(s.Index()+1, CreateTopic{test.name, c, slices.Repeat([][]NodeID{[]NodeID{"n1", "n2", "n3"}[:c.Replicas]}, c.Partitions)})
		if (r.Err == nil) != test.same {
			t.Errorf("%s as %+v: %v", test.name, test.config, r.Err)
		}
	}
	s := grownState(t)
	s.Apply(s.Index()+1, FitTopic{Name: "open", Incarnation: s.Topic("open").Incarnation, Replicas: 3})
	if r := s.Apply(s.Index()+1, CreateTopic{"open", TopicConfig{Replicas: 3}.WithDefaults(3, false), nil}); r.Err != nil {
		t.Errorf("three replicas, which it has for good: %v", r.Err)
	}
}
