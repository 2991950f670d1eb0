package rolling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func TestRecordRoundTrip(t *testing.T) {
	begun := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("node-%d.example.org", i)
	}
	for _, r := range []Record{
		{Verb: "restart", Node: "n2", State: stateDrained, Incarnation: 7, Version: "1.2.0-rc.1+dirty", Pending: []string{"n3", "n1"}},
		{Verb: "upgrade", Node: "a.b-c_D", State: stateRestarted, Pending: []string{"nodes"}},
		{Verb: "restart", Node: "n1", State: stateKept, Pending: []string{"7"}},
		{Verb: "restart", Node: "n1", State: stateRestarted},
		{Verb: "restart", Node: "n1", State: stateDrained, Incarnation: 1, Pending: many},
	} {
		r.Begun = begun
		for _, reason := range []string{"", "; planned work; pending n9", "; (7)"} {
			text := r.String() + reason
			if len(r.String()) > 500 {
				t.Errorf("%d bytes", len(text))
			}
			got, ok := parseRecord(&api.Act{Object: r.Node, Reason: text, Status: 200})
			want := r
			if len(r.Pending) == len(many) {
				want.Pending, want.Unlisted = nil, len(many)
			}
			if !ok {
				t.Errorf("%q is not read", text)
				continue
			}
			got.Act = api.Act{}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("%q: %s", text, diff)
			}
		}
	}
}

func TestInvalidRecords(t *testing.T) {
	const good = "rolling restart begun 2026-11-25T03:00:00Z: n2 restarted; pending none"
	for _, a := range []api.Act{
		{Object: "n2", Status: 200, Reason: ""},
		{Object: "n2", Status: 200, Reason: "rolling restart"},
		{Object: "n3", Status: 200, Reason: good},
		{Object: "n2", Status: 409, Reason: good},
		{Object: "n2", Status: 200, Reason: "x " + good},
		{Object: "n2", Status: 200, Reason: strings.Replace(good, "2026", "yesterday", 1)},
		{Object: "n2", Status: 200, Reason: strings.Replace(good, "none", "(99999999999999999999)", 1)},
		{Object: "n2", Status: 200, Reason: "rolling restart begun 2026-11-25T03:00:00Z: n2 drained, incarnation 99999999999999999999, version 1; pending none"},
	} {
		if r, ok := parseRecord(&a); ok {
			t.Errorf("%+v is read as %+v", a, r)
		}
	}
	if _, ok := parseRecord(&api.Act{Object: "n2", Status: 204, Reason: good}); !ok {
		t.Error("the good one is not read")
	}
}

// recordingCluster is a cluster with an audit log.
type recordingCluster struct {
	*fakeCluster
	log []api.Act
	// dies ends the runner behind the n-th act, as kill -9 does.
	dies int
}

// errKilled ends a run as kill -9 would: nothing is done any more.
var errKilled = errors.New("killed")

func (c *recordingCluster) record(ctx context.Context, id string) {
	c.log = append(c.log, api.Act{Object: id, Status: 200, Reason: api.ReasonOf(ctx), Actor: "10.0.0.1:5", At: c.now})
}

func (c *recordingCluster) DrainNode(ctx context.Context, id string, req api.DrainNode) (*api.NodeDetail, error) {
	if c.dead() {
		return nil, errKilled
	}
	n, err := c.fakeCluster.DrainNode(ctx, id, req)
	c.record(ctx, id)
	return n, err
}

func (c *recordingCluster) UndrainNode(ctx context.Context, id string) (*api.NodeDetail, error) {
	if c.dead() {
		return nil, errKilled
	}
	n, err := c.fakeCluster.UndrainNode(ctx, id)
	c.record(ctx, id)
	return n, err
}

func (c *recordingCluster) dead() bool { return c.dies > 0 && len(c.acts) >= c.dies }

func (c *recordingCluster) exec(ctx context.Context, n *api.NodeDetail) error {
	if c.dead() {
		return errKilled
	}
	return c.fakeCluster.exec(ctx, n)
}

// TestKilledRunContinues kills a run after each of its actions, and continues it: each node is
// restarted once, and no node stays drained.
func TestKilledRunContinues(t *testing.T) {
	for dies := 1; dies <= 9; dies++ {
		c := &recordingCluster{fakeCluster: newFakeCluster(t, "n1", "n2", "n3"), dies: dies}
		o := c.options()
		o.Exec, o.Verb = c.exec, "restart"
		if _, err := Run(t.Context(), c, c.plan(), o); (err == nil) != (dies == 9) {
			t.Fatalf("killed after %d acts: %v", dies, err)
		}
		all, _ := c.Cluster(t.Context())
		u, ok := UnfinishedIn(c.log, all)
		if ok != (dies < 9) {
			t.Fatalf("killed after %d acts: there is something left: %v", dies, ok)
		}
		if ok {
			if drained := dies%3 != 0; u.Drained != drained {
				t.Errorf("killed after %d acts: a node is drained: %v: %s", dies, u.Drained, u)
			}
			c.dies = 0
			p, err := u.Continue(all, "restart", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), c, p, o); err != nil {
				t.Fatal(err)
			}
		}
		count := map[string]int{}
		for _, act := range c.acts {
			count[act]++
		}
		for id, n := range c.nodes {
			if count["exec "+id] != 1 || n.Intent != api.IntentNone {
				t.Errorf("killed after %d acts: %v, %s has the intent %q", dies, c.acts, id, n.Intent)
			}
		}
		if u, ok := UnfinishedIn(c.log, all); ok {
			t.Errorf("killed after %d acts, continued: %s", dies, u)
		}
	}
}

func TestUnfinished(t *testing.T) {
	cluster := &api.Cluster{Controller: "n1", Nodes: []api.Node{{ID: "n1"}, {ID: "n2", Intent: api.IntentDrain}, {ID: "n3"}, {ID: "n4"}}}
	act := func(id, text string) api.Act {
		return api.Act{Object: id, Status: 200, Actor: "10.0.0.1:5", Reason: "rolling restart begun 2026-11-25T03:00:00Z: " + id + " " + text}
	}
	for _, test := range []struct {
		name  string
		acts  []api.Act
		nodes string // "": it came to its end
		says  string
	}{
		{"none", nil, "", ""},
		{"at its end", []api.Act{act("n1", "restarted; pending none")}, "", ""},
		{"drained", []api.Act{act("n2", "drained, incarnation 7, version 1; pending n3 n1")}, "n2 n3 n1", "node n2 is still drained by a rolling restart, which was interrupted or is in progress"},
		{"drained, and taken back by hand", []api.Act{act("n3", "drained, incarnation 7, version 1; pending n1")}, "n3 n1", "which is not drained any more"},
		{"between two", []api.Act{act("n3", "restarted; pending n1 n2")}, "n1 n2", "ended after node n3"},
		{"taken back", []api.Act{act("n3", "not restarted; pending n1")}, "n3 n1", "ended at node n3"},
		{"one was removed", []api.Act{act("n3", "restarted; pending n9 n1")}, "n1", ""},
		{"all were removed", []api.Act{act("n3", "restarted; pending n9")}, "", ""},
		{"others' acts in between", []api.Act{act("n3", "restarted; pending n1"), {Object: "t", Status: 200, Reason: "clean up"}}, "n1", ""},
		{"the last run counts", []api.Act{act("n3", "restarted; pending n1"), {Object: "n1", Status: 200, Reason: "rolling upgrade begun 2026-11-25T04:00:00Z: n1 restarted; pending none"}}, "", ""},
		{"too many to be listed", []api.Act{act("n3", "restarted; pending (3)"), act("n2", "drained, incarnation 7, version 1; pending (2)")}, "n2 n4 n1", "still drained"},
	} {
		u, ok := UnfinishedIn(test.acts, cluster)
		if !ok && test.nodes == "" {
			continue
		}
		if ok != (test.nodes != "") || strings.Join(u.Nodes, " ") != test.nodes || !strings.Contains(u.String(), test.says) {
			t.Errorf("%s: %v %+v", test.name, ok, u)
		}
	}
	u, _ := UnfinishedIn([]api.Act{act("n2", "drained, incarnation 7, version 1; pending n3 n1")}, cluster)
	if _, err := u.Continue(cluster, "upgrade", ""); err == nil || !strings.Contains(err.Error(), "brokerctl rolling restart --continue") {
		t.Error(err)
	}
}

// TestFailedUpgradeIsRetried: the node has started again, but with the version it had.
func TestFailedUpgradeIsRetried(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2")
	o := c.options()
	o.Verb, o.Changed = "upgrade", true
	begun := c.now
	_, err := Run(t.Context(), c, c.plan("n2"), o)
	stoppedAt(t, err, StepReturn, "it serves")
	p := c.plan("n2")
	p.Resume = &Record{Verb: "upgrade", Begun: begun, Node: "n2", State: stateDrained, Incarnation: 7, Version: "1.2.0"}
	o.Exec = func(ctx context.Context, n *api.NodeDetail) error {
		c.nodes["n2"].Version = "1.3.0"
		return c.exec(ctx, n)
	}
	if _, err := Run(t.Context(), c, p, o); err != nil {
		t.Fatal(err)
	}
	c.wantActs("drain n2", "exec n2", "drain n2", "exec n2", "undrain n2")
}
