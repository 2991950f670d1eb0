package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// noteMetadata adds the findings of the metadata.
func noteMetadata(f *health.Findings, s *meta.State) {
	noteReleases(f, s)
	for n := range s.Nodes() {
		switch {
		case n.State == meta.NodeDown && n.Intent == meta.IntentDecommission:
			f.Add("nodes_down", "nodes do not answer", string(n.ID)+" (being decommissioned)")
		case n.State == meta.NodeDown:
			f.Add("nodes_down", "nodes do not answer", string(n.ID))
		case n.Intent != meta.IntentNone:
			f.Add("nodes_draining", "nodes are draining or decommissioning", string(n.ID))
		}
	}
	meta.EachPartition(s, func(t *meta.Topic, i int, p *meta.Partition) {
		name := fmt.Sprintf("%s/%d", t.Name, i)
		if p.Leader == "" {
			f.Add("partitions_offline", "partitions have no leader", name)
		}
		if len(p.ISR) < t.Config.MinISR {
			f.Add("partitions_under_min_isr", "partitions below min_isr refuse publishes", name)
		}
		if p.UnderReplicated() {
			f.Add("partitions_under_replicated", "partitions have an out-of-sync replica", name)
		}
		if has, wanted := len(p.Replicas)-len(p.Adding), wantedReplicas(s, t); has < wanted {
			f.Add("partitions_few_replicas", "partitions have fewer replicas than their topic requires", fmt.Sprintf("%s (%d of %d)", name, has, wanted))
		}
		if p.Moving() {
			f.Add("partitions_moving", "partitions are being reassigned", name)
		}
	})
}

// noteReleases adds an upgrade that is in progress, or not finalized.
func noteReleases(f *health.Findings, s *meta.State) {
	byVersion := map[string][]string{}
	for n := range s.Nodes() {
		byVersion[n.Version] = append(byVersion[n.Version], string(n.ID))
	}
	if len(byVersion) > 1 {
		for _, v := range slices.Sorted(maps.Keys(byVersion)) {
			f.Add("version_skew", "nodes run different versions", cmp.Or(v, "unknown")+" on "+strings.Join(byVersion[v], ","))
		}
	}
	if has, could := s.Cluster().Level, meta.Attainable(s); could > has {
		f.Add("upgrade_not_finalized", "every node supports a higher feature level: run brokerctl cluster finalize-upgrade once a downgrade is ruled out",
			fmt.Sprintf("level %v of %v", has, could))
	}
}

// wantedReplicas returns the intended number of replicas of a topic's partitions.
func wantedReplicas(s *meta.State, t *meta.Topic) int {
	if t.Config.AutoReplicas {
		return max(t.Config.Replicas, meta.WantedReplicas(s))
	}
	return t.Config.Replicas
}

// noteAgreement adds problems of the Raft group. Members for which up is false are missing.
func noteAgreement(f *health.Findings, c raftstore.Configuration, up func(meta.NodeID) bool) {
	voters := len(c.Voters())
	may, should := formation.Tolerance(c, up), (voters-1)/2
	switch {
	case may < 0:
		f.Add("metadata_quorum", "metadata quorum lost, voters missing", fmt.Sprintf("%d more of %d", -may, voters))
	case voters == 2:
		f.Add("two_voters", "two voters tolerate no failure: while either is down, metadata cannot change and no leader can be elected", fmt.Sprintf("%d of %d may fail", may, voters))
	case may < should:
		f.Add("metadata_tolerance", "reduced failure tolerance of the metadata, voters that may still fail", fmt.Sprintf("%d of %d", may, voters))
	}
}

// noteStuck adds what the controller cannot do.
func noteStuck(f *health.Findings, troubles []controller.Trouble) {
	for _, t := range troubles {
		name := fmt.Sprintf("%s/%d", t.Topic, t.Partition)
		switch t.Kind {
		case controller.TroubleDrain, controller.TroubleMinISR:
			f.Add("drain_stuck", "drain blocked, partitions have no other in-sync replica", name)
		case controller.TroubleNoRoom, controller.TroubleMove:
			f.Add("move_stuck", "reassignment blocked, no eligible target node or target node down", name)
		case controller.TroubleOffline: // the metadata shows it
		}
	}
}

// noteNode adds a node's own findings.
func noteNode(f *health.Findings, id meta.NodeID, reasons []health.Reason) {
	for _, r := range reasons {
		switch r.Code {
		case "no_controller":
			f.Add(r.Code, "no metadata leader, nothing can be created or changed", "seen from "+string(id))
		case "partitions_offline": // counted once for all
		default:
			f.AddNode(string(id), r)
		}
	}
}

var askHealth = question[forward.Nothing, []health.Reason]{"health", func(o *Node, _ context.Context, _ forward.Nothing) ([]health.Reason, error) {
	return o.Health().Reasons, nil
}}

// ClusterHealth returns the health of the cluster, from the metadata, the controller's troubles,
// and the reports of all nodes.
func (o *Operator) ClusterHealth(ctx context.Context) health.Report {
	s := o.node.Meta.View()
	f := health.NewFindings()
	noteMetadata(f, s)
	noteStuck(f, o.node.troubles(ctx, func(controller.Trouble) bool { return true }))
	nodes := o.node.present()
	answers := askAll(ctx, o.node, askHealth, nodes, func(meta.NodeID) forward.Nothing { return forward.Nothing{} })
	noteAgreement(f, o.node.members(), func(id meta.NodeID) bool { _, ok := answers[id]; return ok })
	for _, id := range nodes {
		if reasons, ok := answers[id]; ok {
			noteNode(f, id, reasons)
		} else {
			f.Add("nodes_silent", "nodes are marked up but do not answer", string(id))
		}
	}
	noteFlow(f, askAll(ctx, o.node, askFlow, nodes, func(meta.NodeID) forward.Nothing { return forward.Nothing{} }))
	return f.Report()
}
