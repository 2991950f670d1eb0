package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newNodeCommand(g *globals) *cobra.Command {
	return newGroup("node", "Inspect nodes and take them out of service",
		newNodeListCommand(g), newNodeDescribeCommand(g), newNodeDrainCommand(g), newNodeUndrainCommand(g),
		newNodeDecommissionCommand(g), newNodeRemoveCommand(g))
}

// nodeTable shows nodes, one per line.
func nodeTable(p *page, nodes []api.Node) {
	t := newTable("NODE", "STATE", "VOTER", "TCP", "HTTP", "CLUSTER", "ZONE", "VERSION", "+INCARNATION", "+WANTED", "+LEADERS", "+REPLICAS", "+LEVELS")
	for _, n := range nodes {
		t.row(n.ID, stateOf(n), voterText(n.Voter), n.TCPAddress, n.HTTPAddress, n.ClusterAddress, n.Zone, n.Version, n.Incarnation,
			n.Intent, n.Leaders, n.Replicas, levels(n.Levels))
	}
	p.table(t)
}

// levels formats the feature levels that a program supports.
func levels(l api.Levels) string {
	if l.Min == l.Max {
		return fmt.Sprint(l.Min)
	}
	return fmt.Sprintf("%d-%d", l.Min, l.Max)
}

// stateOf formats the state of a node, and whether it does not respond to the node that served the
// request.
func stateOf(n api.Node) string {
	if n.Silent && n.State != api.NodeDown {
		return string(n.State) + ", silent"
	}
	return string(n.State)
}

func voterText(voter bool) string {
	if voter {
		return "yes"
	}
	return "no"
}
