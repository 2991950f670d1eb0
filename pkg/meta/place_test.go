package meta

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

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

// grownState is a cluster of three nodes that had one node when its topics were
// created: "open" with no setting, and "fixed" with all of them.
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
	if err := fit("open", 0, 2); !errors.Is(err, failure.InvalidISR) {
		t.Errorf("a min ISR that stops publishes: %v", err)
	}
	for _, c := range []Command{
		StartReassign{Topic: "open", Version: 1, Target: []NodeID{"n1", "n2", "n3"}},
		AlterISR{Topic: "open", Epoch: 1, Version: 2, ISR: []NodeID{"n1", "n2"}, Joiner: "n2", JoinerIncarnation: 1},
	} {
		if err := apply(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := fit("open", 0, 2); err != nil || s.Topic("open").Config.MinISR != 2 {
		t.Errorf("%v: %+v", err, s.Topic("open").Config)
	}
	if err := apply(AlterTopic{Name: "open", Will: TopicConfig{Replicas: 1}}); err != nil {
		t.Fatal(err)
	}
	if c := s.Topic("open").Config; c.AutoReplicas || c.Replicas != 1 || c.MinISR != 1 || !c.AutoMinISR {
		t.Errorf("one replica was asked for: %+v", c)
	}
}

// TestCreatingATopicAgain requests topics that exist, after the cluster has
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
