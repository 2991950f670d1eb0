package stats_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

func TestStatsOfLeadersAreSummed(t *testing.T) {
	client := func(address string, ready, inFlight int64) stats.Client {
		return stats.Client{Consumer: api.Consumer{Address: address, ClientID: "c", Ready: ready, InFlight: inFlight, FinishedTotal: 1}}
	}
	got := stats.Merge(map[meta.NodeID][]stats.Topic{
		"n1": {{
			Name: "t", Depth: 1, Messages: 10, Bytes: 100, LogBytes: 7,
			Partitions: []stats.Partition{{Partition: 2, Leader: "n1", Epoch: 3, Bytes: 5}, {Partition: 0, Leader: "n2", Bytes: 2}},
			Channels: []stats.Channel{{
				Name:          "c",
				ChannelCounts: api.ChannelCounts{Depth: 1},
				OldestAge:     time.Second,
				Consumers:     2,
				Partitions:    []api.ChannelPartition{{Partition: 2}},
				Clients:       []stats.Client{client("a", 4, 1), client("b", 2, 0)},
			}},
		}, {Name: "followed", Partitions: []stats.Partition{{Leader: "n2"}}}},
		"n2": {{
			Name: "t", Depth: 2, Messages: 20, Bytes: 200, Paused: true,
			Partitions: []stats.Partition{{Partition: 2, Leader: "n2", Epoch: 2, Bytes: 90}, {Partition: 0, Leader: "n2", Bytes: 3}},
			Channels: []stats.Channel{
				{
					Name:          "c",
					ChannelCounts: api.ChannelCounts{Depth: 2, InFlight: 1},
					OldestAge:     time.Minute,
					Consumers:     1,
					Partitions:    []api.ChannelPartition{{Partition: 0}},
					Clients:       []stats.Client{client("a", 3, 2)},
				},
				{Name: "b"},
			},
		}},
	})
	want := []stats.Topic{{
		Name: "t", Depth: 3, Messages: 30, Bytes: 300, LogBytes: 8, Paused: true,
		Partitions: []stats.Partition{{Partition: 0, Leader: "n2", Bytes: 3}, {Partition: 2, Leader: "n1", Epoch: 3, Bytes: 5}},
		Channels: []stats.Channel{{Name: "b"}, {
			Name:          "c",
			ChannelCounts: api.ChannelCounts{Depth: 3, InFlight: 1},
			OldestAge:     time.Minute,
			Consumers:     2,
			Partitions:    []api.ChannelPartition{{Partition: 0}, {Partition: 2}},
			Clients: []stats.Client{
				{Consumer: api.Consumer{Address: "a", ClientID: "c", Ready: 4, InFlight: 3, FinishedTotal: 2}},
				{Consumer: api.Consumer{Address: "b", ClientID: "c", Ready: 2, FinishedTotal: 1}},
			},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A topic is full from when on the first of its leaders has refused messages.
func TestFullTopicIsFullSinceTheFirstRefusal(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, x := range [][3]time.Time{{{}, {}, {}}, {{}, late, late}, {late, {}, late}, {early, late, early}, {late, early, early}} {
		got := stats.Merge(map[meta.NodeID][]stats.Topic{
			"n1": {{Name: "t", FullSince: x[0], Partitions: []stats.Partition{{Partition: 0, Leader: "n1"}}}},
			"n2": {{Name: "t", FullSince: x[1], Partitions: []stats.Partition{{Partition: 1, Leader: "n2"}}}},
		})
		if !got[0].FullSince.Equal(x[2]) {
			t.Errorf("since %v and %v: %v", x[0], x[1], got[0].FullSince)
		}
	}
}

func TestSilentLeaderIsNamed(t *testing.T) {
	topic := func(name string, leaders ...meta.NodeID) *meta.Topic {
		out := &meta.Topic{Name: name}
		for _, id := range leaders {
			out.Partitions = append(out.Partitions, meta.Partition{Leader: id})
		}
		return out
	}
	led := []stats.Partition{{Partition: 0, Leader: "n1"}}
	told := []stats.Topic{{Name: "b", Partitions: led}, {Name: "d", Partitions: led}}
	missing := map[string]string{}
	for _, s := range stats.NameMissing(told, []*meta.Topic{topic("a", "n3", "n2", "n2"), topic("b", "n1", "n2"), topic("c", ""), topic("d", "n1"), topic("e", "n1")}) {
		missing[s.Name] = strings.Join(s.MissingNodes, " ")
	}
	// n1 has answered, and does not lead e yet.
	if want := map[string]string{"a": "n2 n3", "b": "n2", "d": "", "e": "n1"}; !maps.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
}
