package rolling

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Plan lists the nodes to be restarted, in order.
type Plan struct {
	Nodes []api.Node // to be restarted, in this order
	Done  []api.Node // already run the requested version

	Resume *Record // the last record of the run that is continued; nil: a new run
}

// ErrNoNode refuses a plan for a node that is not in the cluster.
var ErrNoNode = errors.New("is not in the cluster")

// PlanFor returns the plan for a cluster. names are the nodes to restart, in that order; if empty, all
// nodes, by id, the controller last. Nodes that already run version are skipped; "" skips none.
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

// harmless are the reasons of a cluster's health that do not prevent the restart of one node. Every
// other reason does, including those of later versions.
var harmless = []string{
	"partitions_moving", "messages_spinning", "messages_blocked", "dead_letters_refused", "topics_full",
	"unfinished_dropped", "dedup_window_short", "channel_stalled", "channel_growing", "two_voters", "partitions_few_replicas",
	"certificate_ends", "certificate_ended", "data_lost", "copies_set_aside", "positions_lost", "stray_data", "join_other_cluster",
	"clock_skew",                            // a node that starts takes the agreed time
	"version_skew", "upgrade_not_finalized", // consequences of an upgrade, or of its cancellation
	"nodes_draining", // each node is checked individually
}

// expected are the reasons that the absence of one node causes.
var expected = []string{"nodes_down", "nodes_silent", "partitions_under_replicated", "metadata_tolerance", "exiting"}

// Fit returns the obstacles to restarting a node; empty if it may be restarted. A node that is already
// down, for example after an interrupted run, is started whatever its absence does to the health.
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

// others returns the other nodes that are down, or about to be, as obstacles.
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

// Result is the outcome for one node, in the answer of a run.
type Result struct {
	Node          string `json:"node"`
	Result        string `json:"result"` // restarted, skipped (it runs the version), planned (of a dry run), failed (the run stopped at it) or pending (not touched)
	VersionBefore string `json:"version_before"`
	Version       string `json:"version"` // after
	TookMS        int64  `json:"took_ms"`
	Command       string `json:"command,omitempty"` // of a dry run
}

// Results returns the outcomes for the nodes of a plan, of which those in done were
// restarted. err is the error of the run.
func (p *Plan) Results(done []Restarted, err error) []Result {
	results := p.Skipped()
	for _, d := range done {
		results = append(results, Result{Node: d.Node, Result: "restarted", VersionBefore: d.Before, Version: d.After, TookMS: d.Took.Milliseconds()})
	}
	stopped, _ := errors.AsType[*Stopped](err)
	for _, n := range p.Nodes[len(done):] {
		result := "pending"
		if stopped != nil && stopped.Node == n.ID {
			result = "failed"
		}
		results = append(results, Result{Node: n.ID, Result: result, VersionBefore: n.Version, Version: n.Version})
	}
	return results
}

// Skipped returns the results of the nodes that already run the version.
func (p *Plan) Skipped() (results []Result) {
	for _, n := range p.Done {
		results = append(results, Result{Node: n.ID, Result: "skipped", VersionBefore: n.Version, Version: n.Version})
	}
	return results
}

// Continue returns the plan for the rest of an unfinished run.
func (u *Unfinished) Continue(c *api.Cluster, verb, version string) (Plan, error) {
	if u.Verb != verb {
		return Plan{}, fmt.Errorf("the interrupted run is a rolling %s: brokerctl rolling %s --continue", u.Verb, u.Verb)
	}
	p, err := PlanFor(c, u.Nodes, version)
	p.Resume = &u.Record
	return p, err
}
