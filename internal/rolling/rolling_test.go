package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// fakeCluster is a cluster whose nodes act on a request at the next query.
type fakeCluster struct {
	t       *testing.T
	now     time.Time
	nodes   map[string]*api.NodeDetail
	reasons []api.Reason
	acts    []string
	// refused is the error of drains.
	refused error
	// silent is the number of queries without an answer.
	silent int
	// onPause is called while a run waits.
	onPause func()
	journal []api.Act
	said    []string
}

func newFakeCluster(t *testing.T, ids ...string) *fakeCluster {
	c := &fakeCluster{t: t, now: time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC), nodes: map[string]*api.NodeDetail{}}
	for _, id := range ids {
		c.nodes[id] = &api.NodeDetail{
			Node:       api.Node{ID: id, State: api.NodeUp, Version: "1.2.0", Incarnation: 7, Leaders: 2},
			Partitions: []api.NodePartition{{Topic: "t", InSync: true}, {Topic: "t", Partition: 1, InSync: true}},
		}
	}
	return c
}

func (c *fakeCluster) answer() error {
	if c.silent > 0 {
		c.silent--
		return &api.Error{Code: failure.Unavailable, Message: "no node answers"}
	}
	return nil
}

func (c *fakeCluster) Cluster(context.Context) (*api.Cluster, error) {
	out := &api.Cluster{Controller: "n1"}
	for _, n := range c.nodes {
		out.Nodes = append(out.Nodes, n.Node)
	}
	return out, c.answer()
}

func (c *fakeCluster) Health(context.Context) (*api.Health, error) {
	return &api.Health{Reasons: c.reasons}, c.answer()
}

func (c *fakeCluster) Node(_ context.Context, id string) (*api.NodeDetail, error) {
	n := *c.nodes[id]
	n.Partitions = slices.Clone(n.Partitions)
	return &n, c.answer()
}

func (c *fakeCluster) DrainNode(ctx context.Context, id string, req api.DrainNode) (*api.NodeDetail, error) {
	if err := c.answer(); err != nil {
		return nil, err
	}
	if c.refused != nil {
		return nil, c.refused
	}
	if !req.Stopping || req.Force {
		c.t.Errorf("drain of %s: %+v", id, req)
	}
	c.acts = append(c.acts, "drain "+id)
	c.record(ctx, "drain", id)
	c.nodes[id].Intent, c.nodes[id].State, c.nodes[id].Leaders = api.IntentDrain, api.NodeDraining, 0
	return c.nodes[id], nil
}

func (c *fakeCluster) audit(context.Context, api.JournalOptions) (*api.AuditLog, error) {
	return &api.AuditLog{Acts: slices.Clone(c.journal)}, c.answer()
}

func (c *fakeCluster) record(ctx context.Context, verb, id string) {
	c.journal = append(c.journal, api.Act{Verb: "POST /v1/nodes/{node}/" + verb, Object: id, Reason: api.ReasonOf(ctx), Status: 200, Actor: "10.0.0.9:5000"})
}

func (c *fakeCluster) UndrainNode(ctx context.Context, id string) (*api.NodeDetail, error) {
	c.acts = append(c.acts, "undrain "+id)
	c.record(ctx, "undrain", id)
	c.nodes[id].Intent, c.nodes[id].State = api.IntentNone, api.NodeUp
	return c.nodes[id], nil
}

func (c *fakeCluster) exec(_ context.Context, n *api.NodeDetail) error {
	c.acts = append(c.acts, "exec "+n.ID)
	c.nodes[n.ID].Incarnation++
	if c.nodes[n.ID].State == api.NodeDown {
		c.nodes[n.ID].State = api.NodeUp
	}
	return nil
}

func (c *fakeCluster) options() Options {
	return Options{
		Verb: "restart", Exec: c.exec, Audit: c.audit, Timeout: time.Minute, Request: time.Second,
		Now: func() time.Time { return c.now },
		Pause: func(_ context.Context, d time.Duration) {
			c.now = c.now.Add(d)
			if c.onPause != nil {
				c.onPause()
			}
		},
		Say: func(node string, step Step, text string) {
			c.said = append(c.said, fmt.Sprintf("%s %s %s", node, step, text))
		},
	}
}

func (c *fakeCluster) plan(names ...string) Plan {
	c.t.Helper()
	all, _ := c.Cluster(c.t.Context())
	p, err := PlanFor(all, names, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *fakeCluster) wantActs(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.acts); diff != "" {
		c.t.Errorf("acts:\n%s", diff)
	}
}

func stoppedAt(t *testing.T, err error, step Step, state string) *Stopped {
	t.Helper()
	s, ok := errors.AsType[*Stopped](err)
	if !ok || s.Step != step || !strings.Contains(s.State, state) {
		t.Fatalf("got %v, want a stop at %s that says %q", err, step, state)
	}
	return s
}

func TestPlan(t *testing.T) {
	c := &api.Cluster{Controller: "n1", Nodes: []api.Node{
		{ID: "n3", Version: "2", State: api.NodeUp}, {ID: "n1", Version: "1", State: api.NodeUp}, {ID: "n2", Version: "2", State: api.NodeDown},
	}}
	for _, test := range []struct {
		name    string
		names   []string
		version string
		want    string
	}{
		{"the controller goes last", nil, "", "n2 n3 n1 |"},
		{"as they are named", []string{"n1", "n3"}, "", "n1 n3 |"},
		{"who runs it and is up is passed over", nil, "2", "n2 n1 | n3"},
		{"unknown", []string{"n9"}, "", `node "n9" is not in the cluster`},
		{"twice", []string{"n1", "n1"}, "", `node "n1" is named twice`},
	} {
		p, err := PlanFor(c, test.names, test.version)
		var got []string
		for _, n := range p.Nodes {
			got = append(got, n.ID)
		}
		got = append(got, "|")
		for _, n := range p.Done {
			got = append(got, n.ID)
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("%s: %s, want %s", test.name, text, test.want)
		}
	}
	c.Nodes[0].Intent = api.IntentDecommission
	if _, err := PlanFor(c, nil, ""); err == nil || !strings.Contains(err.Error(), "node n3 is being decommissioned") {
		t.Error(err)
	}
}

func TestFit(t *testing.T) {
	node := func(id string, state api.NodeState, intent api.Intent) api.Node {
		return api.Node{ID: id, State: state, Intent: intent}
	}
	up, down := node("n1", api.NodeUp, ""), node("n1", api.NodeDown, "")
	for _, test := range []struct {
		name    string
		nodes   []api.Node
		reasons []string
		want    string
	}{
		{"all is well", []api.Node{up, node("n2", api.NodeUp, "")}, nil, ""},
		{"another is down", []api.Node{up, node("n2", api.NodeDown, "")}, nil, "node n2 is down"},
		{"another is drained", []api.Node{up, node("n2", api.NodeDraining, api.IntentDrain)}, nil, "node n2 is drained"},
		{"it is drained itself", []api.Node{node("n1", api.NodeDraining, api.IntentDrain)}, []string{"nodes_draining"}, ""},
		{"consumers' troubles", []api.Node{up}, []string{"channel_stalled", "two_voters"}, ""},
		{"an upgrade under way", []api.Node{up}, []string{"version_skew", "upgrade_not_finalized"}, ""},
		{"not in sync", []api.Node{up}, []string{"partitions_under_replicated"}, "partitions_under_replicated: "},
		{"a reason of a later version", []api.Node{up}, []string{"new_trouble"}, "new_trouble: "},
		{"it is away itself", []api.Node{down}, []string{"nodes_down", "partitions_under_replicated", "metadata_tolerance"}, ""},
		{"it is away, and more", []api.Node{down}, []string{"nodes_down", "disk_full"}, "disk_full: "},
	} {
		h := &api.Health{}
		for _, code := range test.reasons {
			h.Reasons = append(h.Reasons, api.Reason{Code: code})
		}
		got := strings.Join(Fit(&api.Cluster{Nodes: test.nodes}, h, "n1"), ", ")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNodesRestartOneByOne(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2", "n3")
	c.nodes["n3"].Leaders = 5
	done, err := Run(t.Context(), c, c.plan(), c.options())
	if err != nil || len(done) != 3 {
		t.Fatal(done, err)
	}
	c.wantActs("drain n2", "exec n2", "undrain n2", "drain n3", "exec n3", "undrain n3", "drain n1", "exec n1", "undrain n1")
}

func TestNextNodeWaitsForPreviousOne(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2")
	o := c.options()
	waits := 0
	o.Exec = func(context.Context, *api.NodeDetail) error {
		c.acts = append(c.acts, "exec")
		c.nodes["n2"].State, c.silent = api.NodeDown, 3
		c.onPause = func() {
			n := c.nodes["n2"]
			switch waits++; waits {
			case 6:
				n.Incarnation, n.State, n.Silent = 8, api.NodeDraining, true
				n.Partitions[1].InSync = false
			case 8:
				n.Silent = false
			case 10:
				n.Partitions[1].InSync = true
				c.reasons = []api.Reason{{Code: "partitions_under_replicated"}}
			case 12:
				c.reasons = nil
			}
		}
		return nil
	}
	if _, err := Run(t.Context(), c, c.plan("n2"), o); err != nil || waits < 12 {
		t.Fatal(err, waits)
	}
	said := strings.Join(c.said, "\n")
	for _, want := range []string{
		"return wait: no node answers", "return wait: has not come up again", "return wait: does not answer",
		"sync wait: 1 of 2 replicas are not in sync", "wait wait: partitions_under_replicated",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	c.wantActs("drain n2", "exec", "undrain n2")
}

func TestAbsentNodeIsStarted(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2")
	c.nodes["n2"].State = api.NodeDown
	c.reasons = []api.Reason{{Code: "nodes_down"}}
	o := c.options()
	o.Exec = func(ctx context.Context, n *api.NodeDetail) error {
		c.reasons = nil
		return c.exec(ctx, n)
	}
	if _, err := Run(t.Context(), c, c.plan("n2"), o); err != nil {
		t.Fatal(err)
	}
	c.wantActs("exec n2", "undrain n2")
}

func TestStops(t *testing.T) {
	refused := &api.Error{Code: failure.Precondition, Message: "t/0 would fall below min_isr"}
	failed := errors.New("exit status 1")
	for _, test := range []struct {
		name  string
		set   func(c *fakeCluster, o *Options)
		step  Step
		cause error
		state string
		acts  []string
	}{
		{
			"something is wrong before", func(c *fakeCluster, _ *Options) { c.reasons = []api.Reason{{Code: "disk_full"}} },
			StepWait, errTimeout, "the node was not touched", nil,
		},
		{"no node answers", func(c *fakeCluster, _ *Options) { c.silent = 1e6 }, StepWait, errTimeout, "the node was not touched", nil},
		{"the drain is refused", func(c *fakeCluster, _ *Options) { c.refused = refused }, StepDrain, refused, "it was not restarted", nil},
		{
			"the command fails", func(_ *fakeCluster, o *Options) {
				o.Exec = func(context.Context, *api.NodeDetail) error { return failed }
			},
			StepExec, failed, "it may still be drained",
			[]string{"drain n2"},
		},
		{
			"it does not come back", func(_ *fakeCluster, o *Options) { o.Exec = func(context.Context, *api.NodeDetail) error { return nil } },
			StepReturn, errTimeout, "its log says why",
			[]string{"drain n2"},
		},
		{
			"it runs another version", func(_ *fakeCluster, o *Options) { o.Version = "1.3.0" },
			StepReturn, nil, "it serves",
			[]string{"drain n2", "exec n2"},
		},
		{"it was not upgraded", func(_ *fakeCluster, o *Options) { o.Changed = true }, StepReturn, nil, "it serves", []string{"drain n2", "exec n2"}},
		{"it does not get in sync", func(c *fakeCluster, o *Options) {
			o.Exec = func(ctx context.Context, n *api.NodeDetail) error {
				c.nodes["n2"].Partitions[0].InSync = false
				return c.exec(ctx, n)
			}
		}, StepSync, errTimeout, "it runs", []string{"drain n2", "exec n2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newFakeCluster(t, "n1", "n2")
			o := c.options()
			test.set(c, &o)
			_, err := Run(t.Context(), c, c.plan(), o)
			s := stoppedAt(t, err, test.step, test.state)
			if test.cause != nil && !errors.Is(err, test.cause) {
				t.Errorf("%v, want %v", err, test.cause)
			}
			if diff := cmp.Diff([]string{"n2", "n1"}, s.Pending); diff != "" {
				t.Error(diff)
			}
			c.wantActs(test.acts...)
		})
	}
}

// TestConcurrentRunsStop: both found the cluster healthy, and drained a node each.
func TestConcurrentRunsStop(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2", "n3")
	o := c.options()
	o.Say = func(_ string, step Step, _ string) {
		if step == StepDrain {
			c.nodes["n3"].Intent = api.IntentDrain
		}
	}
	_, err := Run(t.Context(), c, c.plan("n2"), o)
	stoppedAt(t, err, StepDrain, "its drain was cancelled")
	c.wantActs("drain n2", "undrain n2")
}

// TestOneOfTwoRunsRestartsANode: two runs that begin at the same moment choose the same first node. The
// one that drained it first goes on, and the other one leaves the node to it.
func TestOneOfTwoRunsRestartsANode(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2", "n3")
	o, other := c.options(), c.options()
	o.Verb, other.Verb = "restart", "upgrade"
	begun := c.now
	var second error
	o.Say = func(_ string, step Step, _ string) {
		if step != StepExec {
			return
		}
		other.Now = func() time.Time { return begun.Add(time.Nanosecond) }
		other.Exec = func(context.Context, *api.NodeDetail) error {
			return errors.New("the command runs twice")
		}
		_, second = Run(t.Context(), c, c.plan("n2"), other)
	}
	if _, err := Run(t.Context(), c, c.plan("n2"), o); err != nil {
		t.Error(err)
	}
	s := stoppedAt(t, second, StepDrain, "stays drained for the other run")
	if !strings.Contains(s.Error(), "another rolling restart has drained it, begun 2026-11-25 03:00:00 by 10.0.0.9:5000") {
		t.Error(s)
	}
	if len(s.Pending) > 0 {
		t.Errorf("the second run should be continued with %v", s.Pending)
	}
	c.wantActs("drain n2", "drain n2", "exec n2", "undrain n2")
	o.Say, c.acts = func(string, Step, string) {}, nil
	c.now = begun.Add(time.Hour)
	if _, err := Run(t.Context(), c, c.plan("n2"), o); err != nil { // drains that were cancelled do not count
		t.Error(err)
	}
	c.wantActs("drain n2", "exec n2", "undrain n2")
}

// TestInterruptedRunReportsProgress also checks that a drain is undone if the command did not run.
func TestInterruptedRunReportsProgress(t *testing.T) {
	c := newFakeCluster(t, "n1", "n2")
	ctx, cancel := context.WithCancel(t.Context())
	o := c.options()
	o.Say = func(_ string, step Step, _ string) {
		if step == StepDrain {
			cancel()
		}
	}
	_, err := Run(ctx, c, c.plan(), o)
	if s := stoppedAt(t, err, StepDrain, "drained"); !errors.Is(s, context.Canceled) {
		t.Error(s)
	}
}
