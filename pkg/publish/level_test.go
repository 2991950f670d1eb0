package publish

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/topic"
)

// A leader of an older release would refuse a publish that names its publisher. The publisher is
// therefore not named before the cluster's feature level guarantees that all nodes know the field.
func TestOlderLeaderGetsNoPublisher(t *testing.T) {
	store, err := raftstore.Open(raftstore.Options{InMemory: true, NodeID: "n1", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &queues{Options: &Options{Meta: store}}
	told := func() bool {
		messages := []topic.Message{{From: &record.Publisher{Client: "c"}}, {}}
		s.withoutPublisher(messages)
		return messages[0].From != nil
	}
	if told() {
		t.Error("at level 0 the publisher is named")
	}
	if _, err := store.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !told() {
		t.Error("at the level of this release the publisher is not named")
	}
	s.withoutPublisher(nil)
}
