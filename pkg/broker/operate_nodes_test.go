package broker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestDrainIsRefusedIfNoOtherNodeCanLead(t *testing.T) {
	l, c := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("alone", "n1")
	l.create("t", "n2", "n3")
	l.leader("alone", 0)
	l.inSync("t", 0, 2)
	b := l.at("n3")
	if err := b.Directory.AlterTopic(ctx, "t", func(c *meta.TopicConfig) { c.MinISR = 2 }); err != nil {
		t.Fatal(err)
	}
	if err := b.Operator.DrainNode(ctx, "n1", api.DrainNode{DryRun: true}); !errors.Is(err, failure.CannotDrain) {
		t.Errorf("the only copy's node: %v", err)
	}
	if err := b.Operator.DrainNode(ctx, "n2", api.DrainNode{Stopping: true}); !errors.Is(err, failure.CannotDrain) {
		t.Errorf("a stop that leaves too few in sync: %v", err)
	}
	if err := b.Operator.DrainNode(ctx, "n9", api.DrainNode{Force: true}); !errors.Is(err, failure.NodeNotFound) {
		t.Errorf("no node, by force: %v", err)
	}
	if err := b.Operator.DrainNode(ctx, "n2", api.DrainNode{DryRun: true}); err != nil {
		t.Error(err)
	}
	// The description of a node lists what stopping it would break, also without a drain.
	want := []api.Trouble{{Kind: "min_isr", Topic: "t", Nodes: []string{"n2", "n3"}, What: "the in-sync replicas would fall below min_isr"}}
	if d, err := b.Operator.DescribeNode(ctx, "n2"); err != nil || d.Intent != "" || !cmp.Equal(d.IfStopped, want) {
		t.Errorf("after a dry run: %+v, %v", d, err)
	}
	if err := errors.Join(b.Operator.DrainNode(ctx, "n1", api.DrainNode{Force: true}), b.Operator.DrainNode(ctx, "n2", api.DrainNode{})); err != nil {
		t.Fatal(err)
	}
	c.troubles = []controller.Trouble{{Kind: controller.TroubleDrain, PartitionID: meta.PartitionID{Topic: "alone"}, Nodes: []meta.NodeID{"n1"}}}
	d, err := b.Operator.DescribeNode(ctx, "n1")
	if err != nil || d.State != "draining" || d.Intent != "drain" || d.Left.Leaders != 1 || d.Left.Replicas != 0 || len(d.Troubles) != 1 {
		t.Errorf("described as %+v, %v", d, err)
	}
	if holds := []api.NodePartition{{Topic: "alone", Leader: true, InSync: true}}; !cmp.Equal(d.Partitions, holds) {
		t.Errorf("holds %+v, want %+v", d.Partitions, holds)
	}
	if err := b.Operator.UndrainNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Operator.DescribeNode(ctx, "n1"); err != nil || d.State != "up" || d.Left != (api.Progress{}) || len(d.Troubles) > 0 {
		t.Errorf("undrained: %+v, %v", d, err)
	}
}

func TestNodeIsDecommissionedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newGovernedLan(t, "n1", "n2", "n3")
		ctx := t.Context()
		l.create("t", "n1", "n2", "n3")
		l.inSync("t", 0, 3)
		b := l.at("n2")
		if err := b.Operator.DecommissionNode(ctx, "n1", false, true); !errors.Is(err, failure.TooFewNodes) {
			t.Errorf("no room: %v", err)
		}
		if err := b.Operator.DecommissionNode(ctx, "n9", true, true); !errors.Is(err, failure.NodeNotFound) {
			t.Errorf("no node: %v", err)
		}
		if err := b.Operator.DecommissionNode(ctx, "n1", true, true); err != nil {
			t.Fatal(err)
		}
		if d, err := b.Operator.DescribeNode(ctx, "n1"); err != nil || d.Intent != "" {
			t.Errorf("a dry run has begun to decommission: %+v, %v", d, err)
		}
		if err := b.Operator.DecommissionNode(ctx, "n1", true, false); err != nil {
			t.Fatal(err)
		}
		d, err := b.Operator.DescribeNode(ctx, "n1")
		if err != nil || d.Left.Replicas != 1 || d.Left.Leaders != 1 || d.Removable {
			t.Errorf("described as %+v, %v", d, err)
		}
		if err := b.Operator.RemoveNode(ctx, "n1", false, false); !errors.Is(err, failure.NodeInUse) {
			t.Errorf("in use: %v", err)
		}
		if err := b.Directory.DeleteTopic(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if err := b.Operator.RemoveNode(ctx, "n3", false, false); !errors.Is(err, failure.NodeActive) {
			t.Errorf("up and wanted: %v", err)
		}
		if d, err := b.Operator.DescribeNode(ctx, "n1"); err != nil || !d.Removable {
			t.Errorf("empty: %+v, %v", d, err)
		}
		if d, err := b.Operator.DescribeNode(ctx, "n1"); err != nil || d.DeletedTopics != 1 || len(d.OnlyCopies) != 0 {
			t.Errorf("with a copy of a deleted topic: %+v, %v", d, err)
		}
		if err := b.Operator.RemoveNode(ctx, "n1", false, true); err != nil || len(c.removed) > 0 {
			t.Errorf("a dry run removed %v, %v", c.removed, err)
		}
		if err := errors.Join(b.Operator.RemoveNode(ctx, "n1", false, false), b.Operator.TransferController(ctx)); err != nil || !slices.Equal(c.removed, []meta.NodeID{"n1"}) || c.moved != 1 {
			t.Errorf("removed %v, %v", c.removed, err)
		}
		if err := b.Operator.RemoveNode(ctx, "n9", false, false); !errors.Is(err, failure.NodeNotFound) {
			t.Errorf("no node: %v", err)
		}
		if _, err := b.Operator.DescribeNode(ctx, "n1"); !errors.Is(err, failure.NodeNotFound) {
			t.Errorf("removed and described: %v", err)
		}
	})
}

func TestHealthListsWorstReasonFirst(t *testing.T) {
	l, c := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	expect := func(healthy, degraded bool, codes ...string) {
		t.Helper()
		h := l.at("n2").Operator.ClusterHealth(ctx)
		var got []string
		for _, r := range h.Reasons {
			got = append(got, r.Code)
		}
		if h.Healthy != healthy || h.Degraded != degraded || !slices.Equal(got, codes) {
			t.Errorf("healthy %t, degraded %t, %+v; want %t, %t, %v", h.Healthy, h.Degraded, h.Reasons, healthy, degraded, codes)
		}
	}
	expect(true, false)
	if err := l.at("n1").Operator.DrainNode(ctx, "n1", api.DrainNode{}); err != nil {
		t.Fatal(err)
	}
	expect(true, false, "nodes_draining")
	c.troubles = []controller.Trouble{{Kind: controller.TroubleDrain, PartitionID: meta.PartitionID{Topic: "t"}}}
	expect(false, true, "drain_stuck", "nodes_draining")
	c.troubles = nil
	l.kill("n3")
	l.inSync("t", 0, 2)
	expect(false, true, "metadata_tolerance", "nodes_silent", "partitions_under_replicated", "nodes_draining")
	if _, err := l.store.Propose(ctx, meta.SetNodeState{ID: "n3", State: meta.NodeDown}); err != nil {
		t.Fatal(err)
	}
	expect(false, true, "metadata_tolerance", "nodes_down", "partitions_under_replicated", "nodes_draining")
	l.elect("t", 0, "")
	expect(false, false, "partitions_offline", "metadata_tolerance", "nodes_down", "partitions_under_replicated", "nodes_draining")
	c.config.Members = c.config.Members[1:]
	if _, err := l.store.Propose(ctx, meta.SetNodeState{ID: "n2", State: meta.NodeDown}); err != nil {
		t.Fatal(err)
	}
	h := l.at("n2").Operator.ClusterHealth(ctx)
	if h.Reasons[0].Code != "metadata_quorum" || h.Healthy || h.Degraded {
		t.Errorf("without a quorum: %+v", h)
	}
}
