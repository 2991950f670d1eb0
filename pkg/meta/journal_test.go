package meta

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
)

// kindsOf returns the kinds and objects of events.
func kindsOf(events []*Event) string {
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s: %s", e.Kind, e.Object, e.What))
	}
	return strings.Join(all, "\n")
}

func TestEveryChangeIsAnEvent(t *testing.T) {
	var s State
	yes, no := true, false
	for i, c := range []Command{
		InitCluster{ID: "blue"},
		NodeStarted{Node: Node{ID: "n1", Version: "1"}},
		NodeStarted{Node: Node{ID: "n2", Version: "1"}},
		NodeStarted{Node: Node{ID: "n1", Version: "2"}},
		CreateTopic{"t", TopicConfig{Partitions: 1, Replicas: 2}.WithDefaults(2, false), [][]NodeID{{"n1", "n2"}}},
		CreateChannel{Topic: "t", Channel: "c"},
		CreateChannel{Topic: "t", Channel: "c"}, // the second changes nothing
		AlterChannel{Topic: "t", Channel: "c", Paused: &yes},
		AlterChannel{Topic: "t", Channel: "c", Paused: &no},
		PauseTopic{"t", true},
		PauseTopic{"t", false},
		SetNodeState{ID: "n2", State: NodeDown},
		SetNodeIntent{ID: "n2", Intent: IntentDrain},
		SetNodeIntent{ID: "n2"},
		AlterISR{Topic: "t", Epoch: 1, Version: 1, ISR: []NodeID{"n1"}},
		DeleteChannel{Topic: "t", Channel: "c"},
		DeleteTopic{Name: "t"},
		RemoveNode{ID: "n2"},
		SetSettings{map[string]string{SettingAutoCreateTopics: "false"}},
		DeleteTopic{Name: "none"}, // it is refused
	} {
		ApplyAt(&s, uint64(i+1), int64(i+1)*1000, c)
	}
	const want = `cluster_formed blue: cluster formed
node_joined n1: node joined the cluster, version 1
node_joined n2: node joined the cluster, version 1
node_started n1: node started, version 2, start 2
topic_created t: topic created, 1 partitions, 2 replicas
channel_created t/c: channel created
channel_paused t/c: channel paused
channel_resumed t/c: channel resumed
topic_paused t: topic paused
topic_resumed t: topic resumed
node_down n2: node is down
node_drain n2: operator asked: drain
node_undrained n2: drain or decommission cancelled
isr_changed t/0: in-sync replicas n1, were n1,n2
channel_deleted t/c: channel deleted
topic_deleted t: topic deleted
node_removed n2: node removed from the cluster
settings_changed : settings: auto_create_topics=false`
	all := JournalOf(&s).Events(0)
	if got := kindsOf(all); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if e := all[1]; e.Index != 2 || e.At != 2000 {
		t.Errorf("%+v", e)
	}
	if some := JournalOf(&s).Events(15); len(some) != 4 || some[0].Kind != "channel_deleted" {
		t.Errorf("behind 15: %s", kindsOf(some))
	}
	back, err := DecodeSnapshot(bytes.NewReader(encode(t, &s)))
	if err != nil || kindsOf(JournalOf(back).Events(0)) != want {
		t.Errorf("from a snapshot: %v", err)
	}
}

func TestElectionsAreSummarized(t *testing.T) {
	c := ElectLeaders{Elections: []Election{
		{Topic: "a", Partition: 0, Leader: "n2", Reason: "n1 is down"},
		{Topic: "a", Partition: 1, Leader: "n3"},
		{Topic: "b", Partition: 0, Leader: "n2"},
		{Topic: "b", Partition: 1, Leader: "n2"},
		{Topic: "b", Partition: 2, Leader: "n9"},
	}}
	e := describeElections(c, &Result{Failed: []error{nil, nil, nil, nil, failure.StaleVersion}})
	if e.Kind != "leader_elected" || e.Object != "a/0 a/1 b/0 and 1 more" || e.What != "leader n2,n3 (n1 is down)" {
		t.Errorf("%+v", e)
	}
	e = describeElections(ElectLeaders{Elections: []Election{{Topic: "a"}}}, &Result{})
	if e.Kind != "partition_offline" || e.Object != "a/0" {
		t.Errorf("%+v", e)
	}
	if e = describeElections(ElectLeaders{Elections: []Election{{Topic: "a"}}}, &Result{Failed: []error{failure.StaleVersion}}); e.Kind != "" {
		t.Errorf("of nothing: %+v", e)
	}
}

func TestJournalIsBounded(t *testing.T) {
	var s State
	index := uint64(0)
	apply := func(c Command) {
		t.Helper()
		index++
		if r := ApplyAt(&s, index, 1, c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(NodeStarted{Node: Node{ID: "n1"}})
	apply(CreateTopic{"t", TopicConfig{}.WithDefaults(1, false), [][]NodeID{{"n1"}}})
	apply(RecordAct{Act{Verb: "first"}})
	before := s.Snapshot()
	for i := range maxActs {
		apply(RecordAct{Act{Verb: fmt.Sprint(i)}}) // of one class
	}
	for i := range maxEvents {
		apply(PauseTopic{"t", i%2 == 0})
	}
	acts, events := JournalOf(&s).Acts(), JournalOf(&s).Events(0)
	if len(acts) != mostActs[actSecurity] || acts[0].Verb != fmt.Sprint(maxActs-mostActs[actSecurity]) || len(events) != maxEvents || events[0].Kind != "topic_paused" {
		t.Errorf("%d acts from %+v, %d events", len(acts), acts[0], len(events))
	}
	if old := JournalOf(before).Acts(); len(old) != 1 || old[0].Verb != "first" || len(JournalOf(before).Events(0)) != 2 {
		t.Errorf("what was handed out before: %+v", old)
	}
	if _, err := DecodeSnapshot(bytes.NewReader(encode(t, &s))); err != nil {
		t.Error(err)
	}
	for _, bad := range []Act{{}, {Verb: "x", Before: strings.Repeat("x", maxActBytes)}} {
		if err := (RecordAct{bad}).validate(); !errors.Is(err, failure.InvalidConfig) {
			t.Errorf("%v", err)
		}
	}
}

// States that share their history change independently.
func TestForkedJournalSharesOnlyOldEvents(t *testing.T) {
	var s State
	for i := range 10 {
		s.Apply(uint64(i+1), RecordAct{Act{Verb: "both"}})
	}
	fork := s.Snapshot()
	s.Apply(11, RecordAct{Act{Verb: "one"}})
	fork.Apply(11, RecordAct{Act{Verb: "other"}})
	if a, b := JournalOf(&s).Acts()[10], JournalOf(fork).Acts()[10]; a.Verb != "one" || b.Verb != "other" {
		t.Errorf("%+v and %+v", a, b)
	}
}
