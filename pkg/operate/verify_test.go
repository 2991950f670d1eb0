package operate

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestComparisonCoversWhatAllInSyncReplicasHold(t *testing.T) {
	isr := []meta.NodeID{"a", "b"}
	for _, c := range []struct {
		what      string
		copies    map[meta.NodeID]api.Copy
		from, end int
		nodes     []meta.NodeID
	}{
		{"no replica answers", nil, 0, 0, nil},
		{"only one that is not in sync", map[meta.NodeID]api.Copy{"c": {CommittedEnd: 9}}, 0, 0, nil},
		{"equal", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}}, 0, 5, []meta.NodeID{"a", "b"}},
		{"one has heard of less", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 3}}, 0, 3, []meta.NodeID{"a", "b"}},
		{"retention", map[meta.NodeID]api.Copy{"a": {LogStart: 2, CommittedEnd: 5}, "b": {CommittedEnd: 5}}, 2, 5, []meta.NodeID{"a", "b"}},
		{"a third that is behind", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}, "c": {CommittedEnd: 4}}, 0, 5, []meta.NodeID{"a", "b"}},
		{"a third that is level", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "b": {CommittedEnd: 5}, "c": {CommittedEnd: 6}}, 0, 5, []meta.NodeID{"a", "b", "c"}},
		{"a third that has dropped more", map[meta.NodeID]api.Copy{"a": {CommittedEnd: 5}, "c": {LogStart: 1, CommittedEnd: 6}}, 0, 5, []meta.NodeID{"a"}},
		{"all dropped", map[meta.NodeID]api.Copy{"a": {LogStart: 7, CommittedEnd: 7}, "b": {CommittedEnd: 5}}, 5, 5, []meta.NodeID{"b"}},
	} {
		from, end, nodes := common(c.copies, isr)
		if int(from) != c.from || int(end) != c.end || !slices.Equal(nodes, c.nodes) {
			t.Errorf("%s: [%d,%d) of %v, want [%d,%d) of %v", c.what, from, end, nodes, c.from, c.end, c.nodes)
		}
	}
}

func TestReplicasAreIdenticalIfAllInSyncDigestsAgree(t *testing.T) {
	isr := []meta.NodeID{"a", "b"}
	for _, c := range []struct {
		digests map[string]string
		want    bool
	}{
		{nil, false},
		{map[string]string{"a": "1", "b": "1"}, true},
		{map[string]string{"a": "1", "b": "1", "c": "1"}, true},
		{map[string]string{"a": "1"}, false},
		{map[string]string{"a": "1", "b": "2"}, false},
		{map[string]string{"a": "1", "b": "1", "c": "2"}, false},
	} {
		if got := identical(c.digests, isr); got != c.want {
			t.Errorf("%v: %v", c.digests, got)
		}
	}
}

func TestInSyncReplicasWithoutAnAnswerAreNamed(t *testing.T) {
	d := api.PartitionDigest{Digests: map[string]string{"n1": "ab", "n5": "ab"}, Unreadable: map[string]string{"n2": "damaged"}}
	if got := unanswered(&d, []meta.NodeID{"n4", "n1", "n2", "n3"}); !slices.Equal(got, []string{"n3", "n4"}) {
		t.Errorf("%q did not answer, want n3 and n4", got)
	}
	if got := unanswered(&d, []meta.NodeID{"n1", "n2"}); len(got) > 0 {
		t.Errorf("%q did not answer, want none", got)
	}
}

func TestReplicasBeyondTheLeaderAreNamed(t *testing.T) {
	copies := map[meta.NodeID]api.Copy{"n1": {CommittedEnd: 3, LogEnd: 5}, "n2": {CommittedEnd: 5, LogEnd: 7}, "n3": {CommittedEnd: 6, LogEnd: 6}}
	if got := beyond(copies, 5); len(got) != 1 || got["n3"] != 6 {
		t.Errorf("beyond 5: %v", got)
	}
	if got := beyond(copies, 6); got != nil {
		t.Errorf("beyond 6: %v", got)
	}
	d := api.PartitionDigest{Digests: map[string]string{"n1": "ab", "n3": "ab"}, Longer: map[string]uint64{"n3": 6}}
	if got := d.Compared(); got != "NO" {
		t.Errorf("compared: %s", got)
	}
}
