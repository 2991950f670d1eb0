package host

import (
	"fmt"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// manyTopics returns metadata of three nodes with the given number of topics.
func manyTopics(t *testing.T, topics int) *meta.State {
	t.Helper()
	s := &meta.State{}
	for i := range 3 {
		change(t, s, meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprintf("n%d", i))}})
	}
	config := meta.TopicConfig{}.WithDefaults(1, false)
	for i := range topics {
		change(t, s, meta.CreateTopic{Name: fmt.Sprintf("t%05d", i), Config: config, Assignment: [][]meta.NodeID{{"n1"}}})
	}
	return s
}

func change(t testing.TB, s *meta.State, c meta.Command) {
	t.Helper()
	if r := s.Apply(s.Index()+1, c); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// A change of topics causes work only on those topics. A change of a node, and the
// first look at the metadata, cause work on all topics, and on replicas of deleted
// topics.
func TestChangeConvergesOnlyChangedTopics(t *testing.T) {
	s := manyTopics(t, 1000)
	held := slices.Values([]string{"gone", "t00001"})
	all := append(slices.Collect(func(yield func(string) bool) {
		for topic := range s.Topics() {
			if !yield(topic.Name) {
				return
			}
		}
	}), "gone")
	check := func(was *meta.State, want ...string) {
		t.Helper()
		if got := slices.Collect(due(was, s, held)); !slices.Equal(got, want) {
			t.Errorf("work on %d topics, %.3q..., want %d, %.3q...", len(got), got, len(want), want)
		}
	}
	check(&meta.State{}, all...)
	was := s.Snapshot()
	check(was)
	change(t, s, meta.PauseTopic{Name: "t00500", Paused: true})
	change(t, s, meta.CreateTopic{Name: "new", Config: s.Topic("t00001").Config, Assignment: [][]meta.NodeID{{"n1"}}})
	change(t, s, meta.DeleteTopic{Name: "t00700"})
	check(was, "new", "t00500", "t00700")
	was = s.Snapshot()
	change(t, s, meta.SetNodeState{ID: "n2", State: meta.NodeDown})
	all = slices.DeleteFunc(all, func(name string) bool { return name == "t00700" })
	check(was, slices.Insert(all, 0, "new")...)
}
