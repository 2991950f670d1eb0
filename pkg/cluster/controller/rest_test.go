package controller

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A change of topics that need nothing makes the controller visit no other topic. A change that may
// need something makes it visit all.
func TestQuietChangesDoNotVisitAllTopics(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	partition := func(s *meta.State, i int) meta.Partition { return s.Topic("topic-0500").Partitions[i] }
	for what, c := range map[string]struct {
		change func(s *meta.State) []meta.Command
		all    bool
	}{
		"nothing": {func(*meta.State) []meta.Command { return nil }, false},
		"a new channel": {func(*meta.State) []meta.Command {
			return []meta.Command{meta.CreateChannel{Topic: "topic-0500", Channel: "c"}}
		}, false},
		"a new topic": {func(s *meta.State) []meta.Command {
			config := meta.TopicConfig{Replicas: 1}.WithDefaults(1, false)
			return []meta.Command{meta.CreateTopic{Name: "new", Config: config, Assignment: [][]meta.NodeID{{"node-01"}}}}
		}, false},
		"a topic less": {func(*meta.State) []meta.Command {
			return []meta.Command{meta.DeleteTopic{Name: "topic-0500"}}
		}, false},
		"a partition without a leader": {func(s *meta.State) []meta.Command {
			p := partition(s, 3)
			return []meta.Command{meta.ElectLeaders{Elections: []meta.Election{{Topic: "topic-0500", Partition: 3, Version: p.Version}}}}
		}, true},
		"a move": {func(s *meta.State) []meta.Command {
			p := partition(s, 3)
			return []meta.Command{meta.StartReassign{Topic: "topic-0500", Partition: 3, Version: p.Version, Target: p.Replicas[:2]}}
		}, true},
		"a topic that may have more replicas": {func(s *meta.State) []meta.Command {
			config := meta.TopicConfig{}.WithDefaults(1, false)
			return []meta.Command{meta.CreateTopic{Name: "new", Config: config, Assignment: [][]meta.NodeID{{"node-01"}}}}
		}, true},
		"a topic that has too few replicas": {func(s *meta.State) []meta.Command {
			config := meta.TopicConfig{}.WithDefaults(1, false)
			return []meta.Command{
				meta.CreateTopic{Name: "new", Config: config, Assignment: [][]meta.NodeID{{"node-01"}}},
				meta.FitTopic{Name: "new", Incarnation: meta.Incarnation(s.Index() + 1), Replicas: 3},
			}
		}, true},
		"a node that is full": {func(s *meta.State) []meta.Command {
			n := s.Node("node-07")
			return []meta.Command{meta.SetNodeDisk{ID: n.ID, Full: true, Incarnation: n.Incarnation}}
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := largeState(t)
			core := newCore(Options{}, "node-00", now)
			for n := range s.Nodes() {
				core.Heard(n.ID, n.Incarnation, now)
			}
			if d := core.Decide(s, now); len(d.Commands)+len(d.Verdicts) > 0 {
				t.Fatalf("there is something to do: %+v", d)
			}
			for _, command := range c.change(s) {
				if r := s.Apply(s.Index()+1, command); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			later := now.Add(time.Millisecond)
			core.Decide(s, later)
			if all := core.looked.Equal(later); all != c.all {
				t.Errorf("looked at all topics: %v, want %v", all, c.all)
			}
		})
	}
}

// Topics in the trash are purged when they are due, once nothing else is to be done.
func TestTrashIsPurgedInTime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := largeState(t)
	core := newCore(Options{}, "node-00", now)
	hear := func(now time.Time) {
		for n := range s.Nodes() {
			core.Heard(n.ID, n.Incarnation, now)
		}
	}
	in := s.Topic("topic-0500").Incarnation
	if r := meta.ApplyAt(s, s.Index()+1, now.UnixNano(), meta.DeleteTopic{Name: "topic-0500"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	hear(now)
	if d := core.Decide(s, now); len(d.Commands) > 0 {
		t.Errorf("%+v while its time is not over", d.Commands)
	}
	later := now.Add(meta.DefaultTrash)
	hear(later)
	d := core.Decide(s, later)
	if len(d.Commands) != 1 {
		t.Fatalf("%+v", d.Commands)
	}
	if c, ok := d.Commands[0].(meta.PurgeTopics); !ok || len(c.Incarnations) != 1 || c.Incarnations[0] != in {
		t.Errorf("%+v", d.Commands[0])
	}
	p := s.Topic("topic-0001").Partitions[0]
	if r := s.Apply(s.Index()+1, meta.ElectLeaders{Elections: []meta.Election{{Topic: "topic-0001", Partition: 0, Version: p.Version}}}); r.Err != nil {
		t.Fatal(r.Err)
	}
	d = core.Decide(s, later)
	if len(d.Commands) != 1 || meta.NameOf(d.Commands[0]) != "elect-leaders" {
		t.Errorf("beside a partition without a leader: %+v", d.Commands)
	}
}

// A wall clock that is set forward purges nothing until it has stayed there for age.StepTrust,
// also for a controller that takes over meanwhile.
func TestStepOfTheClockPurgesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := largeState(t)
	step := time.Duration(0)
	wall := func(now time.Time) int64 { return now.Add(step).UnixNano() }
	core := newCore(Options{}, "node-00", now)
	core.wall = wall
	if r := meta.ApplyAt(s, s.Index()+1, now.UnixNano(), meta.DeleteTopic{Name: "topic-0500"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	decide := func(after time.Duration) int {
		t.Helper()
		for n := range s.Nodes() {
			core.Heard(n.ID, n.Incarnation, now.Add(after))
		}
		return len(core.Decide(s, now.Add(after)).Commands)
	}
	decide(0)
	step = 30 * time.Hour
	if n := decide(time.Second); n > 0 {
		t.Error("purged as soon as the clock was set forward")
	}
	trash := core.trash
	core = newCore(Options{}, "node-00", now.Add(time.Minute))
	core.wall, core.trash = wall, trash
	if n := decide(time.Minute); n > 0 {
		t.Error("purged by the next controller of the process")
	}
	step = 0
	if n := decide(time.Hour); n > 0 {
		t.Error("purged after the clock was corrected")
	}
	step = 30 * time.Hour
	if n := decide(2 * time.Hour); n > 0 {
		t.Error("purged as soon as the clock was set forward, because the topic had been seen for long")
	}
	if n := decide(2*time.Hour + age.StepTrust); n != 1 {
		t.Error("not purged although the clock stayed where it was set")
	}
}
