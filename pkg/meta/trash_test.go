package meta

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// kept returns a state with the given number of topics in the trash, deleted a
// second apart, and the indexes at which they were created.
func kept(t *testing.T, topics, partitions int) (*State, []Incarnation) {
	t.Helper()
	s := &State{}
	apply := func(c Command, at time.Time) {
		t.Helper()
		if r := ApplyAt(s, s.Index()+1, at.UnixNano(), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	began := time.Unix(1_000_000, 0)
	apply(NodeStarted{Node: Node{ID: "n1"}}, began)
	config := TopicConfig{Partitions: partitions, Replicas: 1, RetentionTrash: time.Hour}.WithDefaults(1, false)
	var made []Incarnation
	for i := range topics {
		name := fmt.Sprintf("t%d", i)
		apply(CreateTopic{name, config, slices.Repeat([][]NodeID{{"n1"}}, partitions)}, began)
		made = append(made, Incarnation(s.Index()))
		apply(DeleteTopic{Name: name}, began.Add(time.Duration(i)*time.Second))
	}
	return s, made
}

func TestTrashOfANode(t *testing.T) {
	s, _ := kept(t, 2, 2)
	shared := *s.trash[0].Topic
	shared.Partitions = slices.Clone(shared.Partitions)
	shared.Partitions[0].Replicas = []NodeID{"n1", "n2"}
	shared.Partitions[1].Replicas = []NodeID{"n2", "n3"}
	s.trash[0] = &Deleted{Index: s.trash[0].Index, Topic: &shared}
	shared.Partitions[0].ISR = []NodeID{"n1", "n2"}
	shared.Partitions[1].ISR = []NodeID{"n3"}
	for id, want := range map[NodeID]string{"n1": "2 [t1]", "n2": "1 []", "n3": "1 [t0]", "n4": "0 []"} {
		topics, only := TrashOf(s).Of(id)
		if got := fmt.Sprint(topics, only); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
}

func TestOldestLeaveTheTrash(t *testing.T) {
	s, made := kept(t, maxTrashTopics+2, 1)
	if n := len(slices.Collect(TrashOf(s).All())); n != maxTrashTopics || TrashOf(s).Holds("t1", made[1]) || !TrashOf(s).Holds("t2", made[2]) {
		t.Errorf("%d topics kept", n)
	}
	s, made = kept(t, 12, 1000)
	if n := len(slices.Collect(TrashOf(s).All())); n != maxTrashPartitions/1000 || TrashOf(s).Holds("t1", made[1]) || !TrashOf(s).Holds("t2", made[2]) {
		t.Errorf("%d topics of 1,000 partitions kept", n)
	}
}

// A watcher of the metadata learns which topics have left the trash, for any reason, and
// gets no notice while the trash only grows.
func TestTopicsThatLeftTheTrash(t *testing.T) {
	s, made := kept(t, 3, 1)
	was := TrashOf(s.Snapshot())
	check := func(what string, want ...string) {
		t.Helper()
		if got := slices.Collect(TrashOf(s).Gone(was)); !slices.Equal(got, want) {
			t.Errorf("%s: %q gone, want %q", what, got, want)
		}
		was = TrashOf(s.Snapshot())
	}
	apply := func(c Command) {
		t.Helper()
		if r := ApplyAt(s, s.Index()+1, 1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	check("nothing")
	apply(RestoreTopic{Name: "t1"})
	check("restored", "t1")
	apply(DeleteTopic{Name: "t1"})
	check("deleted again")
	apply(PurgeTopics{[]Incarnation{made[0], made[2]}})
	check("purged", "t0", "t2")
	apply(PurgeTopics{[]Incarnation{made[1]}})
	check("purged the last", "t1")
	if r := s.Apply(s.Index()+1, PurgeTopics{[]Incarnation{made[1]}}); !errors.Is(r.Err, failure.NotInTrash) {
		t.Errorf("purged twice: %v", r.Err)
	}
}

func TestInvalidTrashInSnapshot(t *testing.T) {
	s, _ := kept(t, 2, 1)
	good := encode(t, s)
	if back, err := DecodeSnapshot(bytes.NewReader(good)); err != nil || !bytes.Equal(encode(t, back), good) {
		t.Fatalf("%v", err)
	}
	for _, test := range []struct{ what, old, fresh string }{
		{"more than there are", `"trash":2`, `"trash":3`},
		{"more than there may be", `"trash":2`, `"trash":1001`},
		{"fewer than none", `"trash":2`, `"trash":-1`},
		{"order", `{"index":5,"at"`, `{"index":3,"at"`},
		{"index of the future", `{"index":5,"at"`, `{"index":6,"at"`},
		{"no partitions", `"partitions":[{"replicas":["n1"],"leader":"n1","epoch":1,"isr":["n1"],"version":1}]`, `"partitions":[]`},
	} {
		body := bytes.Replace(good[:len(good)-4], []byte(test.old), []byte(test.fresh), 1)
		if bytes.Equal(body, good[:len(good)-4]) {
			t.Fatalf("%s: %q is not there in %q", test.what, test.old, body)
		}
		if _, err := DecodeSnapshot(bytes.NewReader(sealed(body))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

// A restore without an incarnation must not guess. The result names the topics that a
// full trash drops.
func TestAmbiguousRestoreIsRefused(t *testing.T) {
	s, made := kept(t, 1, 1)
	apply := func(c Command) Result { return ApplyAt(s, s.Index()+1, 1, c) }
	config := TopicConfig{}.WithDefaults(1, false)
	for _, c := range []Command{CreateTopic{"t0", config, [][]NodeID{{"n1"}}}, DeleteTopic{Name: "t0"}} {
		if r := apply(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := apply(RestoreTopic{Name: "t0"}); !errors.Is(r.Err, failure.ManyDeleted) {
		t.Errorf("one of two: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t0", Incarnation: made[0]}); r.Err != nil || r.Topic.Incarnation != made[0] {
		t.Errorf("%+v, %v", r.Topic, r.Err)
	}
	full, _ := kept(t, maxTrashTopics+1, 1)
	events := JournalOf(full).Events(full.Index() - 1)
	if len(events) != 1 || !strings.Contains(events[0].What, "purged: t0") {
		t.Errorf("%+v", events)
	}
}

func TestRestoreReplacesTopicOfTheSameName(t *testing.T) {
	s, made := kept(t, maxTrashTopics, 1) // the one that is replaced must not push another one out
	apply := func(c Command) Result { return ApplyAt(s, s.Index()+1, 1, c) }
	r := apply(CreateTopic{"t0", TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	newer := r.Topic.Incarnation
	if r := apply(RestoreTopic{Name: "t0", Incarnation: made[0]}); !errors.Is(r.Err, failure.NameTaken) {
		t.Errorf("without replacing: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t0", Replaces: newer}); !errors.Is(r.Err, failure.InvalidConfig) {
		t.Errorf("without an incarnation: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t0", Incarnation: made[0], Replaces: newer - 1}); !errors.Is(r.Err, failure.NameTaken) || s.Topic("t0").Incarnation != newer {
		t.Errorf("in place of another one than there is: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t0", Incarnation: newer, Replaces: newer}); !errors.Is(r.Err, failure.NotInTrash) || s.Topic("t0").Incarnation != newer {
		t.Errorf("one that is not in the trash: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t0", Incarnation: made[0], Replaces: newer}); r.Err != nil || r.Topic.Incarnation != made[0] || len(r.Purged) > 0 {
		t.Errorf("%+v, %v", r, r.Err)
	}
	if s.Topic("t0").Incarnation != made[0] || !TrashOf(s).Holds("t0", newer) || TrashOf(s).Holds("t0", made[0]) {
		t.Errorf("topic %+v", s.Topic("t0"))
	}
	if r := apply(RestoreTopic{Name: "t0", Incarnation: made[0], Replaces: newer}); !errors.Is(r.Err, failure.NotInTrash) {
		t.Errorf("a second time: %v", r.Err)
	}
	if r := apply(RestoreTopic{Name: "t1", Incarnation: made[1], Replaces: newer}); r.Err != nil {
		t.Errorf("where nothing has the name: %v", r.Err)
	}
	if back, err := DecodeSnapshot(bytes.NewReader(encode(t, s))); err != nil || back.Topic("t0").Incarnation != made[0] {
		t.Errorf("the snapshot: %v", err)
	}
}

// A topic deleted during a move is restored on its target, if that is in sync, or else on its old
// replicas.
func TestMoveEndsWhenTopicIsTrashed(t *testing.T) {
	for _, test := range []struct {
		isr, replicas, left []NodeID
		leader              NodeID
	}{
		{[]NodeID{"n1", "n2", "n3"}, []NodeID{"n3", "n2"}, []NodeID{"n2", "n3"}, ""}, // n1 led, and goes
		{[]NodeID{"n1", "n2"}, []NodeID{"n1", "n2"}, []NodeID{"n1", "n2"}, "n1"},
		{[]NodeID{"n1"}, []NodeID{"n1", "n2"}, []NodeID{"n1"}, "n1"},
	} {
		p := Partition{
			Replicas: []NodeID{"n3", "n2", "n1"}, Adding: []NodeID{"n3"}, Removing: []NodeID{"n1"}, Before: []NodeID{"n1", "n2"},
			ISR: test.isr, Leader: "n1",
		}
		got := (&Topic{Partitions: []Partition{p}}).settled().Partitions[0]
		if !slices.Equal(got.Replicas, test.replicas) || !slices.Equal(got.ISR, test.left) || got.Leader != test.leader || got.Moving() || got.Before != nil {
			t.Errorf("in sync %v: %+v", test.isr, got)
		}
	}
}
