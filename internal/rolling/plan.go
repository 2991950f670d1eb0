package rolling

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Plan is which nodes go, in which order.
type Plan struct {
	Nodes []api.Node // to be restarted, in this order
	Done  []api.Node // already run the version that was asked for

	Resume *Record // where the run was that is continued; nil: a new one begins
}

// ErrNoNode is why there is no plan for a node that is not in the cluster.
var ErrNoNode = errors.New("is not in the cluster")

// PlanFor returns the plan for a cluster. names are the nodes to restart, in that order; none: all, by id, the
// controller last. version is what they are to run: those that do are passed over; "" passes over none.
func PlanFor(c *api.Cluster, names []string, version string) (Plan, error) {
	nodes, err := chosen(c, names)
	if err != nil {
		return Plan{}, err
	}
	var p Plan
	for _, n := range nodes {
		switch {
		case n.Intent == api.IntentDecommission:
			return Plan{}, fmt.Errorf("node %s is being decommissioned: wait until it is removed, cancel with brokerctl node undrain %s, or name the other nodes with --nodes", n.ID, n.ID)
		case version != "" && n.Version == version && n.State == api.NodeUp:
			p.Done = append(p.Done, n)
		default:
			p.Nodes = append(p.Nodes, n)
		}
	}
	return p, nil
}

func chosen(c *api.Cluster, names []string) ([]api.Node, error) {
	if len(names) == 0 {
		nodes := slices.Clone(c.Nodes)
		slices.SortStableFunc(nodes, func(a, b api.Node) int {
			switch {
			case b.ID == c.Controller && a.ID != c.Controller:
				return -1
			case a.ID == c.Controller && b.ID != c.Controller:
				return 1
			}
			return strings.Compare(a.ID, b.ID)
		})
		return nodes, nil
	}
	var nodes []api.Node
	for i, name := range names {
		at := slices.IndexFunc(c.Nodes, func(n api.Node) bool { return n.ID == name })
		if at < 0 {
			return nil, fmt.Errorf("node %q %w", name, ErrNoNode)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("node %q is named twice", name)
		}
		nodes = append(nodes, c.Nodes[at])
	}
	return nodes, nil
}

// harmless are the reasons of a cluster's health that say nothing against a restart of one node. Every other one
// does, those of later versions, too.
var harmless = []string{
	"partitions_moving", "messages_spinning", "messages_blocked", "dead_letters_refused", "topics_full",
	"dedup_window_short", "channel_stalled", "channel_growing", "two_voters", "partitions_few_replicas",
	"data_lost", "copies_set_aside", "positions_lost", "stray_data",
	"version_skew", "upgrade_not_finalized", // what an upgrade brings, and the way back from one
	"nodes_draining", // nodes are looked at one by one
}

// expected are the reasons that are there because one node is away.
var expected = []string{"nodes_down", "nodes_silent", "partitions_under_replicated", "metadata_tolerance", "exiting"}

// Fit says what keeps a node from being restarted: nothing if it may go. A node that is away already, as after a
// run that was interrupted, is started whatever its absence does to the health.
func Fit(c *api.Cluster, h *api.Health, id string) []string {
	obstacles := others(c, id)
	away := slices.ContainsFunc(c.Nodes, func(n api.Node) bool { return n.ID == id && n.State == api.NodeDown })
	for _, r := range h.Reasons {
		if slices.Contains(harmless, r.Code) || away && slices.Contains(expected, r.Code) {
			continue
		}
		obstacles = append(obstacles, fmt.Sprintf("%s: %s", r.Code, r.What))
	}
	return obstacles
}

// others says which other nodes are away, or about to be.
func others(c *api.Cluster, id string) (obstacles []string) {
	for _, n := range c.Nodes {
		switch {
		case n.ID == id:
		case n.State == api.NodeDown:
			obstacles = append(obstacles, fmt.Sprintf("node %s is down", n.ID))
		case n.Intent == api.IntentDrain:
			obstacles = append(obstacles, fmt.Sprintf("node %s is drained: by another rolling restart, one that stopped, or an operator", n.ID))
		}
	}
	return obstacles
}

// behind returns how many replicas of a node are not in sync.
func behind(n *api.NodeDetail) (count int) {
	for _, p := range n.Partitions {
		if !p.InSync && !p.Adding && !p.Removing {
			count++
		}
	}
	return count
}

// Result is what became of one node, in the answer of a run.
type Result struct {
	Node          string `json:"node"`
	Result        string `json:"result"` // restarted, skipped (it runs the version), planned (of a dry run) or left
	VersionBefore string `json:"version_before"`
	Version       string `json:"version"` // after
	TookMS        int64  `json:"took_ms"`
	Command       string `json:"command,omitempty"` // of a dry run
}

// Results returns what became of the nodes of a plan of which those in done were restarted.
func (p *Plan) Results(done []Restarted) []Result {
	results := p.Skipped()
	for _, d := range done {
		results = append(results, Result{Node: d.Node, Result: "restarted", VersionBefore: d.Before, Version: d.After, TookMS: d.Took.Milliseconds()})
	}
	for _, n := range p.Nodes[len(done):] {
		results = append(results, Result{Node: n.ID, Result: "left", VersionBefore: n.Version, Version: n.Version})
	}
	return results
}

// Skipped returns the results of the nodes that run the version already.
func (p *Plan) Skipped() (results []Result) {
	for _, n := range p.Done {
		results = append(results, Result{Node: n.ID, Result: "skipped", VersionBefore: n.Version, Version: n.Version})
	}
	return results
}

// Continue returns the plan for what is left of a run that has not come to its end.
func (u *Unfinished) Continue(c *api.Cluster, verb, version string) (Plan, error) {
	if u.Verb != verb {
		return Plan{}, fmt.Errorf("the interrupted run is a rolling %s: brokerctl rolling %s --continue", u.Verb, u.Verb)
	}
	p, err := PlanFor(c, u.Nodes, version)
	p.Resume = &u.Record
	return p, err
}
