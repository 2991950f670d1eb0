package directory

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestPartitionsCountAsCreations, of a new topic and of one that there is.
func TestPartitionsCountAsCreations(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		ctx := limit.NewCreations(5, time.Hour, slog.New(slog.DiscardHandler)).By(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
		if _, err := d.CreateTopic(ctx, "t", meta.TopicConfig{Replicas: 1, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		plans := Plans{Of: d}
		if _, err := plans.Topic(ctx, "u", meta.TopicConfig{Replicas: 1, Partitions: 4}); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("a plan of 4 beside 2 of 5: %v", err)
		}
		if _, err := d.CreateTopic(ctx, "u", meta.TopicConfig{Replicas: 1, Partitions: 4}); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("4 beside 2 of 5: %v", err)
		}
		if _, err := plans.Partitions(ctx, "t", 6); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("a plan of 4 more: %v", err)
		}
		if err := d.AddPartitions(ctx, "t", 6); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("4 more: %v", err)
		}
		if err := d.AddPartitions(ctx, "t", 5); err != nil {
			t.Errorf("3 more: %v", err)
		}
		if _, err := d.CreateTopic(ctx, "v", meta.TopicConfig{Replicas: 1}); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("one beside 5 of 5: %v", err)
		}
	})
}

// TestNodesTakeNoMorePartitionsThanTheyHaveRoomFor: the refusal has the figures.
func TestNodesTakeNoMorePartitionsThanTheyHaveRoomFor(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		ctx := t.Context()
		var node meta.Node
		d.o.Meta.Read(func(s *meta.State) { node = *s.Node("n1") })
		node.MaxPartitions = 5
		if _, err := d.host.Propose(ctx, meta.NodeStarted{Node: node}); err != nil {
			t.Fatal(err)
		}
		create := func(name string, partitions int) error {
			_, err := d.CreateTopic(ctx, name, meta.TopicConfig{Replicas: 1, Partitions: partitions})
			return err
		}
		if err := create("t", 3); err != nil {
			t.Fatal(err)
		}
		err := create("u", 3)
		if !errors.Is(err, failure.LimitReached) || !strings.Contains(err.Error(), "n1 has 3 partitions of at most 5, and would get 3 more") {
			t.Errorf("3 beside 3 of 5: %v", err)
		}
		if err := d.AddPartitions(ctx, "t", 6); !errors.Is(err, failure.LimitReached) {
			t.Errorf("3 more: %v", err)
		}
		if err := d.AddPartitions(ctx, "t", 5); err != nil {
			t.Errorf("2 more: %v", err)
		}
		if err := create("u#ephemeral", 1); !errors.Is(err, failure.LimitReached) {
			t.Errorf("an ephemeral one: %v", err)
		}
		if err := d.DeleteTopic(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if err := create("u", 1); err != nil {
			t.Errorf("after a deletion: %v", err)
		}
		if _, err := d.Trash().Restore(ctx, meta.RestoreTopic{Name: "t"}); !errors.Is(err, failure.LimitReached) {
			t.Errorf("the deleted one comes back: %v", err)
		}
	})
}

// TestFullNodesGetNoPartitions as long as others have room.
func TestFullNodesGetNoPartitions(t *testing.T) {
	full, free := &meta.Node{ID: "full", MaxPartitions: 2}, &meta.Node{ID: "free"}
	load := map[meta.NodeID]meta.Load{"full": {Replicas: 2}, "free": {Replicas: 9}}
	if got := roomy([]*meta.Node{full, free}, load, 1); len(got) != 1 || got[0] != free {
		t.Errorf("%v", got)
	}
	if got := roomy([]*meta.Node{full, free}, load, 2); len(got) != 2 {
		t.Errorf("%v", got) // refused, with the figures
	}
}
