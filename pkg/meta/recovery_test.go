package meta

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

func TestRecoveredIDHasOriginAndEpoch(t *testing.T) {
	second := RecoveredID("ORIGIN", "AAAA")
	third := RecoveredID(second, "BBBB")
	other := RecoveredID("ORIGIN", "CCCC")
	if second != "ORIGIN.2.AAAA" || third != "ORIGIN.3.BBBB" {
		t.Errorf("%s, then %s", second, third)
	}
	tests := []struct {
		newer, older string
		want         bool
	}{
		{second, "ORIGIN", true},
		{third, "ORIGIN", true},
		{third, second, true},
		{"ORIGIN", second, false},
		{second, second, false},
		{other, second, false}, // two recoveries that know nothing of each other
		{"OTHER.2.AAAA", "ORIGIN", false},
		{"a.b", "a", false},
		{"a.2.", "a", false},
		{"a.1.X", "a", false},
	}
	for _, tt := range tests {
		if got := Supersedes(tt.newer, tt.older); got != tt.want {
			t.Errorf("%s supersedes %s: %v", tt.newer, tt.older, got)
		}
	}
}

// recoverable is the state of three nodes with one partition of each kind.
func recoverable(t *testing.T) *State {
	t.Helper()
	var s State
	index := uint64(0)
	apply := func(c Command) {
		t.Helper()
		index++
		if r := s.Apply(index, c); r.Err != nil {
			t.Fatalf("%s: %v", NameOf(c), r.Err)
		}
	}
	apply(InitCluster{ID: "ORIGIN"})
	for _, id := range []NodeID{"n1", "n2", "n3"} {
		apply(NodeStarted{Node: Node{ID: id}})
	}
	apply(SetNodeIntent{ID: "n1", Intent: IntentDrain})
	apply(CreateTopic{
		Name: "t", Config: TopicConfig{Partitions: 3, Replicas: 2, MinISR: 2, Sync: SyncAlways()},
		Assignment: [][]NodeID{{"n2", "n1"}, {"n2", "n1"}, {"n2", "n3"}},
	})
	p := s.Topic("t").Partitions[1]
	apply(AlterISR{Topic: "t", Partition: 1, Epoch: p.Epoch, Version: p.Version, ISR: []NodeID{"n2"}})
	p = s.Topic("t").Partitions[0]
	apply(StartReassign{Topic: "t", Partition: 0, Version: p.Version, Target: []NodeID{"n3", "n2"}})
	return &s
}

func TestOnlySurvivorIsInSyncOnlyWhereItWas(t *testing.T) {
	s := recoverable(t)
	before := encode(t, s)
	holds := map[int]Holding{}
	for _, p := range SurvivorPartitions(s, "n1") {
		holds[p.Partition] = p.Holds
	}
	if holds[0] != HoldsAll || holds[1] != HoldsSome || holds[2] != HoldsNone {
		t.Errorf("%v", holds)
	}
	next, err := OnlySurvivor(s, "n1", "ORIGIN.2.AAAA")
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, next)
	if next.Cluster().ID != "ORIGIN.2.AAAA" || next.NodeCount() != 1 || next.Node("n1").Intent != IntentNone {
		t.Errorf("%+v with %d nodes", next.Cluster(), next.NodeCount())
	}
	now := next.Topic("t")
	for i, isr := range []int{1, 0, 0} {
		p, was := &now.Partitions[i], &s.Topic("t").Partitions[i]
		if !slices.Equal(p.Replicas, []NodeID{"n1"}) || len(p.ISR) != isr || p.Leader != "" || p.Moving() {
			t.Errorf("partition %d: %+v", i, p)
		}
		if p.Epoch <= was.Epoch+1 || p.Version <= was.Version {
			t.Errorf("partition %d: epoch %d after %d, version %d after %d", i, p.Epoch, was.Epoch, p.Version, was.Version)
		}
	}
	if c := now.Config; c.Replicas != 2 || c.MinISR != 2 {
		t.Errorf("the operator's wish has changed: %+v", c)
	}
	if !bytes.Equal(encode(t, s), before) {
		t.Error("the state before has changed")
	}
	if _, err := OnlySurvivor(s, "n9", "ORIGIN.2.AAAA"); !errors.Is(err, failure.NodeNotFound) {
		t.Errorf("a node that is not known: %v", err)
	}
	if _, err := OnlySurvivor(s, "n1", ""); !errors.Is(err, failure.InvalidName) {
		t.Errorf("no cluster id: %v", err)
	}
}

// TestOnlySurvivorKeepsItsTrash: of a deleted topic the survivor keeps what it has. The nodes that are
// gone are no replicas of it, so that a new node with the name of one has nothing in sync.
func TestOnlySurvivorKeepsItsTrash(t *testing.T) {
	s := recoverable(t)
	apply := func(s *State, c Command) {
		t.Helper()
		if r := s.Apply(s.Index()+1, c); r.Err != nil {
			t.Fatalf("%s: %v", NameOf(c), r.Err)
		}
	}
	apply(s, CreateTopic{
		Name: "other", Config: TopicConfig{Partitions: 1, Replicas: 2, MinISR: 2, Sync: SyncAlways()}, Assignment: [][]NodeID{{"n2", "n3"}},
	})
	was := s.Topic("t")
	apply(s, DeleteTopic{Name: "t"})
	apply(s, DeleteTopic{Name: "other"})
	before := encode(t, s)
	next, err := OnlySurvivor(s, "n1", "ORIGIN.2.AAAA")
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, next)
	if !bytes.Equal(encode(t, s), before) {
		t.Error("the state before has changed")
	}
	if TrashOf(next).Topic("other", 0) != nil {
		t.Error("a topic of which the survivor has nothing can be restored")
	}
	apply(next, NodeStarted{Node: Node{ID: "n2"}})
	apply(next, RestoreTopic{Name: "t"})
	now := next.Topic("t")
	if now.Incarnation != was.Incarnation {
		t.Errorf("incarnation %d, was %d", now.Incarnation, was.Incarnation)
	}
	for i, isr := range []int{1, 0, 0} {
		p := &now.Partitions[i]
		if !slices.Equal(p.Replicas, []NodeID{"n1"}) || len(p.ISR) != isr || p.Leader != "" || p.Epoch <= was.Partitions[i].Epoch+2 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
}

// Whatever happened before, a recovery results in a complete state that can be
// stored, read, and changed.
func TestEveryHistoryCanBeRecovered(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(10) {
		r := random{rand.New(rand.NewPCG(seed, round))}
		var s State
		for i := range uint64(200) {
			s.Apply(i+1, r.command(&s))
			id := r.node()
			next, err := OnlySurvivor(&s, id, RecoveredID("X", "AAAA"))
			if (err == nil) != (s.Node(id) != nil) {
				t.Fatalf("round %d, step %d, %s: %v", round, i, id, err)
			}
			if err != nil {
				continue
			}
			checkInvariants(t, next)
			image := encode(t, next)
			again, err := DecodeSnapshot(bytes.NewReader(image))
			if err != nil {
				t.Fatalf("round %d, step %d, %s: %v", round, i, id, err)
			}
			if !bytes.Equal(encode(t, again), image) {
				t.Fatalf("round %d, step %d, %s: another state was read", round, i, id)
			}
			again.Apply(next.Index()+1, NodeStarted{Node: Node{ID: "new"}})
			checkInvariants(t, again)
		}
	}
}
