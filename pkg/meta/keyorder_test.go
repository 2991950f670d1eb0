package meta

import (
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
)

// Keys would move to the new partitions while their messages wait in the old ones.
func TestNoPartitionsAreAddedUnderOrderByKey(t *testing.T) {
	var s State
	apply := func(c Command) error { return s.Apply(s.Index()+1, c).Err }
	one := [][]NodeID{{"n1"}}
	if err := errors.Join(
		apply(NodeStarted{Node: Node{ID: "n1"}}),
		apply(CreateTopic{Name: "t", Config: TopicConfig{Partitions: 1, Replicas: 1, MinISR: 1, Sync: SyncAlways()}, Assignment: one}),
		apply(CreateChannel{Topic: "t", Channel: "c", Order: policy.ByKey}),
	); err != nil {
		t.Fatal(err)
	}
	add := AddPartitions{Name: "t", Was: 1, Assignment: one}
	if err := apply(add); !errors.Is(err, failure.InvalidConfig) || !strings.Contains(err.Error(), "t/c has order by key") {
		t.Errorf("added: %v", err)
	}
	if got := len(s.Topic("t").Partitions); got != 1 {
		t.Errorf("%d partitions after a refusal", got)
	}
	for _, order := range []policy.Order{policy.Unordered, policy.Strict} {
		add.Was = len(s.Topic("t").Partitions)
		if err := errors.Join(apply(AlterChannel{Topic: "t", Channel: "c", Order: &order}), apply(add)); err != nil {
			t.Errorf("with order %q: %v", order, err)
		}
	}
}
