package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// gravity is what a reason means for the cluster's health.
type gravity uint8

const (
	forInformation gravity = iota // it is under way, or wanted
	degrading                     // it serves, with less safety than it should have
	failing                       // somebody is refused something now
)

// gravities is the table of the codes that Health may have. One that is not here
// is failing.
var gravities = map[string]gravity{
	"partitions_moving":           forInformation,
	"nodes_draining":              forInformation,
	"messages_spinning":           forInformation,
	"channel_stalled":             forInformation,
	"channel_growing":             forInformation,
	"two_voters":                  forInformation,
	"nodes_down":                  degrading,
	"nodes_silent":                degrading,
	"partitions_under_replicated": degrading,
	"partitions_few_replicas":     degrading,
	"metadata_tolerance":          degrading,
	"drain_stuck":                 degrading,
	"move_stuck":                  degrading,
	"role_change_stalled":         degrading,
	"partitions_not_led":          failing,
	"replication_stalled":         degrading,
	"replica_slow":                degrading,
	"uncommitted_budget":          degrading,
	"log_corrupt":                 degrading,
	"stray_data":                  degrading,
	"positions_lost":              degrading,
	"data_lost":                   degrading,
	"copies_set_aside":            degrading,
	"replica_refusing":            degrading,
	"replica_failed":              degrading,
	"leader_failed":               failing,
	"exiting":                     degrading,
	"disk_full":                   failing,
	"disk_failed":                 failing,
	"partitions_offline":          failing,
	"partitions_under_min_isr":    failing,
	"no_controller":               failing,
	"metadata_quorum":             failing,
}

// namesShown is how many names a reason lists.
const namesShown = 3

// namesOf writes the first few of some names, and how many more there are.
func namesOf(names []string) string {
	text := strings.Join(names[:min(len(names), namesShown)], " ")
	if more := len(names) - namesShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// findings gathers reasons by code.
type findings struct {
	names map[string][]string // what each is about
	what  map[string]string
}

func newFindings() *findings { return &findings{map[string][]string{}, map[string]string{}} }

// add notes one thing that a code is about.
func (f *findings) add(code, what, name string) {
	f.names[code] = append(f.names[code], name)
	f.what[code] = what
}

// health makes the verdict: the gravest reasons first.
func (f *findings) health() Health {
	h := Health{Healthy: true, Reasons: []HealthReason{}}
	worst := forInformation
	for _, code := range slices.Sorted(maps.Keys(f.names)) {
		names := f.names[code]
		h.Reasons = append(h.Reasons, HealthReason{Code: code, Count: len(names), What: fmt.Sprintf("%s: %s", f.what[code], namesOf(names))})
		worst = max(worst, gravityOf(code))
	}
	slices.SortStableFunc(h.Reasons, func(a, b HealthReason) int { return int(gravityOf(b.Code)) - int(gravityOf(a.Code)) })
	h.Healthy, h.Degraded = worst == forInformation, worst == degrading
	return h
}

func gravityOf(code string) gravity {
	g, known := gravities[code]
	if !known {
		return failing
	}
	return g
}

// metadata notes what the metadata says.
func (f *findings) metadata(s *meta.State) {
	for n := range s.Nodes() {
		switch {
		case n.State == meta.NodeDown && n.Intent == meta.IntentDecommission:
			f.add("nodes_down", "nodes do not answer", string(n.ID)+" (being decommissioned)")
		case n.State == meta.NodeDown:
			f.add("nodes_down", "nodes do not answer", string(n.ID))
		case n.Intent != meta.IntentNone:
			f.add("nodes_draining", "nodes are draining or decommissioning", string(n.ID))
		}
	}
	eachPartitionOf(s, func(t *meta.Topic, i int, p *meta.Partition) {
		name := fmt.Sprintf("%s/%d", t.Name, i)
		if p.Leader == "" {
			f.add("partitions_offline", "partitions have no leader", name)
		}
		if len(p.ISR) < t.Config.MinISR {
			f.add("partitions_under_min_isr", "partitions below min_isr refuse publishes", name)
		}
		if underReplicated(p) {
			f.add("partitions_under_replicated", "partitions have an out-of-sync replica", name)
		}
		if has, wanted := len(p.Replicas)-len(p.Adding), wantedReplicas(s, t); has < wanted {
			f.add("partitions_few_replicas", "partitions have fewer replicas than their topic requires", fmt.Sprintf("%s (%d of %d)", name, has, wanted))
		}
		if p.Moving() {
			f.add("partitions_moving", "partitions are being reassigned", name)
		}
	})
}

// wantedReplicas returns how many replicas the partitions of a topic are to have.
func wantedReplicas(s *meta.State, t *meta.Topic) int {
	if t.Config.AutoReplicas {
		return max(t.Config.Replicas, meta.WantedReplicas(s))
	}
	return t.Config.Replicas
}

// underReplicated says whether a replica is not in sync that is not just being
// made.
func underReplicated(p *meta.Partition) bool {
	return slices.ContainsFunc(p.Replicas, func(id meta.NodeID) bool {
		return !slices.Contains(p.ISR, id) && !slices.Contains(p.Adding, id)
	})
}

// agreement notes what is wrong with those who agree on the metadata. Nodes for
// which up is false do not take part.
func (f *findings) agreement(c raftstore.Configuration, up func(meta.NodeID) bool) {
	voters := len(c.Voters())
	may, should := formation.Tolerance(c, up), (voters-1)/2
	switch {
	case may < 0:
		f.add("metadata_quorum", "metadata quorum lost, voters missing", fmt.Sprintf("%d more of %d", -may, voters))
	case voters == 2:
		f.add("two_voters", "two voters tolerate no failure: while either is down, metadata cannot change and no leader can be elected", fmt.Sprintf("%d of %d may fail", may, voters))
	case may < should:
		f.add("metadata_tolerance", "reduced failure tolerance of the metadata, voters that may still fail", fmt.Sprintf("%d of %d", may, voters))
	}
}

// stuck notes what the controller cannot do.
func (f *findings) stuck(troubles []Trouble) {
	for _, t := range troubles {
		name := fmt.Sprintf("%s/%d", t.Topic, t.Partition)
		switch t.Kind {
		case controller.TroubleDrain, controller.TroubleMinISR:
			f.add("drain_stuck", "drain blocked, partitions have no other in-sync replica", name)
		case controller.TroubleNoRoom, controller.TroubleMove:
			f.add("move_stuck", "reassignment blocked, no eligible target node or target node down", name)
		case controller.TroubleOffline: // the metadata says so
		}
	}
}

// node notes what a node says of itself.
func (f *findings) node(id meta.NodeID, reasons []HealthReason) {
	for _, r := range reasons {
		switch r.Code {
		case "no_controller":
			f.add(r.Code, "no metadata leader, nothing can be created or changed", "seen from "+string(id))
		case "partitions_offline": // counted once for all
		default:
			f.add(r.Code, r.What, "on "+string(id))
		}
	}
}

var askHealth = question[nothing, []HealthReason]{"health", func(o *desk, _ context.Context, _ nothing) ([]HealthReason, error) {
	return o.health().Reasons, nil
}}

// ClusterHealth tells whether the cluster does what it should, and what is wrong
// if it does not: by the metadata, by what the controller cannot do, and by what
// each node says of itself.
func (o *operator) ClusterHealth(ctx context.Context) Health {
	s := o.d.o.Meta.View()
	f := newFindings()
	f.metadata(s)
	f.stuck(o.troubles(ctx, func(Trouble) bool { return true }))
	nodes := o.present()
	answers := askAll(ctx, &o.desk, askHealth, nodes, func(meta.NodeID) nothing { return nothing{} })
	f.agreement(o.members(), func(id meta.NodeID) bool { _, ok := answers[id]; return ok })
	for _, id := range nodes {
		if reasons, ok := answers[id]; ok {
			f.node(id, reasons)
		} else {
			f.add("nodes_silent", "nodes are marked up but do not answer", string(id))
		}
	}
	f.flow(askAll(ctx, &o.desk, askFlow, nodes, func(meta.NodeID) nothing { return nothing{} }))
	return f.health()
}
