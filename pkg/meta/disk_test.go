package meta

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
)

// started123 is a cluster in which n1 has started three times with disk d, as starts a, b and c, and leads t/0
// with n2 in sync, and t/1 alone.
func started123(t *testing.T) *State {
	t.Helper()
	s := new(State)
	for _, c := range []Command{
		NodeStarted{Node: Node{ID: "n1", Disk: Disk{"d", 1, "a"}}},
		NodeStarted{Node: Node{ID: "n1", Disk: Disk{"d", 2, "b"}}, Follows: []string{"a"}},
		NodeStarted{Node: Node{ID: "n1", Disk: Disk{"d", 3, "c"}}, Follows: []string{"b"}},
		NodeStarted{Node: Node{ID: "n2"}},
		CreateTopic{"t", TopicConfig{Partitions: 2, Replicas: 2}.WithDefaults(2, false), [][]NodeID{{"n1", "n2"}, {"n1", "n2"}}},
		AlterISR{Topic: "t", Partition: 1, Epoch: 1, Version: 1, ISR: []NodeID{"n1"}},
	} {
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return s
}

// TestDiskOfStartIsCompared: another disk, and an older copy of the same one, leave every in-sync set, even as
// the only member, in the command that registers the start.
func TestDiskOfStartIsCompared(t *testing.T) {
	for _, of := range []struct {
		name     string
		disk     Disk
		follows  []string
		outdated bool
	}{
		{"the next start", Disk{"d", 4, "x"}, []string{"c"}, false},
		{"registered twice", Disk{"d", 3, "c"}, []string{"b"}, false},
		{"after starts that may not have been registered", Disk{"d", 6, "x"}, []string{"c", "y", "z"}, false},
		{"after a start that was registered without an answer", Disk{"d", 4, "x"}, []string{"b", "c"}, false},
		{"a snapshot from before the last start", Disk{"d", 3, "x"}, []string{"b"}, true},
		{"an older snapshot that was started often", Disk{"d", 9, "x"}, []string{"a", "y", "z"}, true},
		{"another disk", Disk{"e", 4, "x"}, []string{"c"}, true},
		{"another disk with the same start", Disk{"e", 3, "c"}, nil, true},
		{"an unknown disk", Disk{}, nil, false},
	} {
		t.Run(of.name, func(t *testing.T) {
			s := started123(t)
			r := ApplyAt(s, s.Index()+1, 7, NodeStarted{Node: Node{ID: "n1", Disk: of.disk}, Follows: of.follows})
			if r.Err != nil || r.Node.Outdated != of.outdated || r.Node.Disk.ID != of.disk.ID || r.Node.Disk.Start != of.disk.Start {
				t.Fatalf("%+v, %v", r.Node, r.Err)
			}
			if n := r.Node.Disk.Starts; of.disk.Known() && of.disk.Start != "c" && n <= 3 || of.outdated && n <= 3 {
				t.Errorf("start %d after 3", n)
			}
			shared, alone := &s.Topic("t").Partitions[0], &s.Topic("t").Partitions[1]
			if in := slices.Contains(shared.ISR, "n1"); in == of.outdated || !slices.Contains(shared.ISR, "n2") || (shared.Leader == "n1") == of.outdated {
				t.Errorf("t/0: %+v", shared)
			}
			if in := slices.Contains(alone.ISR, "n1"); in == of.outdated || (alone.Leader == "n1") == of.outdated {
				t.Errorf("t/1: %+v", alone)
			}
			events := JournalOf(s).Events(s.Index() - 1)
			if len(events) != 1 || (events[0].Kind == "node_disk_outdated") != of.outdated {
				t.Fatalf("events %+v", events)
			}
			if of.outdated && (of.disk.ID == "d") != strings.Contains(events[0].What, "older copy") {
				t.Errorf("event %q", events[0].What)
			}
		})
	}
}

// TestOutdatedStaysUntilMarked: a node that stops before it has marked its replicas is still outdated at its next
// start, with the right disk.
func TestOutdatedStaysUntilMarked(t *testing.T) {
	s := started123(t)
	start := func(n uint64, start, follows, marked string) *Node {
		t.Helper()
		r := s.Apply(s.Index()+1, NodeStarted{Node: Node{ID: "n1", Disk: Disk{"e", n, start}}, Follows: []string{follows}, Marked: marked})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Node
	}
	if n := start(1, "x", "", "c"); !n.Outdated {
		t.Error("another disk is not outdated because it was marked at an earlier start")
	}
	if n := start(2, "y", "x", "c"); !n.Outdated {
		t.Error("no longer outdated, and its replicas are not marked")
	}
	if n := start(3, "z", "y", "y"); n.Outdated {
		t.Error("outdated although its replicas are marked")
	}
}

// TestRecoveredNodeMayHaveAnyDisk: the state may be of a snapshot that is older than the disk.
func TestRecoveredNodeMayHaveAnyDisk(t *testing.T) {
	next, err := OnlySurvivor(started123(t), "n1", "recovered")
	if err != nil {
		t.Fatal(err)
	}
	r := next.Apply(next.Index()+1, NodeStarted{Node: Node{ID: "n1", Disk: Disk{"d", 9, "x"}}, Follows: []string{"w"}})
	if r.Err != nil || r.Node.Outdated || next.Topic("t").Partitions[0].Leader != "" && !slices.Contains(next.Topic("t").Partitions[0].ISR, "n1") {
		t.Errorf("%+v, %v", r.Node, r.Err)
	}
}

func TestDiskIdentityIsBounded(t *testing.T) {
	long := strings.Repeat("x", maxTextLength+1)
	for _, c := range []NodeStarted{
		{Node: Node{ID: "n1", Disk: Disk{ID: long}}},
		{Node: Node{ID: "n1", Disk: Disk{Start: long}}},
		{Node: Node{ID: "n1"}, Follows: []string{long}},
		{Node: Node{ID: "n1"}, Follows: make([]string, maxDiskStarts+1)},
	} {
		if r := new(State).Apply(1, c); !errors.Is(r.Err, failure.LimitReached) {
			t.Errorf("%.100v: %v", c, r.Err)
		}
	}
}

// TestOnlyACertainDifferencePrecedes: a node that may lack the last registrations must not call a newer disk outdated.
func TestOnlyACertainDifferencePrecedes(t *testing.T) {
	registered := Disk{"d", 5, "e"}
	for _, of := range []struct {
		name    string
		disk    Disk
		follows []string
		want    bool
	}{
		{"it follows", Disk{"d", 6, "x"}, []string{"e"}, false},
		{"it follows, without an answer", Disk{"d", 5, "x"}, []string{"d", "e"}, false},
		{"the registration itself", Disk{"d", 5, "e"}, []string{"d"}, false},
		{"an older copy", Disk{"d", 5, "x"}, []string{"d"}, true},
		{"a much older copy", Disk{"d", 2, "x"}, []string{"a"}, true},
		{"later starts that this node does not know", Disk{"d", 8, "x"}, []string{"g"}, false},
		{"an older disk", Disk{"c", 3, "x"}, []string{"c"}, true},
		{"a replacement that this node does not know", Disk{"e", 7, "x"}, []string{"f"}, false},
		{"unknown", Disk{}, nil, false},
	} {
		if got := registered.Precedes(of.disk, of.follows); got != of.want {
			t.Errorf("%s: %v", of.name, got)
		}
	}
}
