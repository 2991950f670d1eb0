package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// TestUnreachableMemberIsReported unless it is a node that is down, which has a reason of its own.
func TestUnreachableMemberIsReported(t *testing.T) {
	s := &meta.State{}
	for i, c := range []meta.Command{
		meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}},
		meta.NodeStarted{Node: meta.Node{ID: "n2", Levels: level.Supported()}},
		meta.SetNodeState{ID: "n2", State: meta.NodeDown},
	} {
		if r := s.Apply(uint64(i+1), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	since := time.Unix(1000, 0)
	all := []formation.Unreached{
		{Node: "n1", Address: "n1:1", Since: since, Why: "no route"},
		{Node: "n2", Address: "n2:1", Since: since, Why: "refused"},
		{Node: "n3", Address: "n3:1", Since: since, Why: "timeout", Until: since.Add(time.Minute)},
	}
	r, some := unreachable(s, all)
	if !some || r.Count != 2 || !strings.Contains(r.What, "n1 at n1:1 (no route)") || !strings.Contains(r.What, "n3 at n3:1 (timeout)") || health.GravityOf(r.Code) != health.Degrading {
		t.Errorf("%+v", r)
	}
	if r, some := unreachable(s, all[1:2]); some {
		t.Errorf("only a node that is down: %+v", r)
	}
	if got, want := reasonOf(all[2]), "no answer at n3:1 since 1970-01-01 00:16:40: timeout; removed at 1970-01-01 00:17:40"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got := reasonOf(all[0]); strings.Contains(got, "removed") {
		t.Errorf("a registered node is removed: %q", got)
	}
	c := raftstore.Configuration{Members: []raftstore.Member{{ID: "n1", Address: "n1:1", Voter: true}, {ID: "n3", Address: "n3:1"}}}
	list := unregistered(s, c, func(id meta.NodeID) bool { return id == "n1" })
	if len(list) != 1 || list[0].ID != "n3" || list[0].ClusterAddress != "n3:1" || list[0].Voter || !list[0].Silent {
		t.Errorf("%+v", list)
	}
}
