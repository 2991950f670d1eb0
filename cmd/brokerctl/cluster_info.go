package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterInfoCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show the cluster and its nodes",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return answer(cmd, g, g.client.Cluster, clusterView) },
	}
}

func clusterView(c *api.Cluster) view {
	return view{
		object: c,
		names:  []string{c.ClusterID},
		text: func(p *page) {
			t := newTable("CLUSTER", "CONTROLLER", "NODES", "VOTERS", "LEVEL", "+ANSWERED BY")
			voters := 0
			for _, n := range c.Nodes {
				if n.Voter {
					voters++
				}
			}
			t.row(c.ClusterID, c.Controller, upOf(c.Nodes), voters, levelOf(c), c.Self)
			p.table(t)
			p.line("")
			nodeTable(p, c.Nodes)
		},
	}
}

// levelOf formats the feature level of a cluster, and the level to which it could be raised.
func levelOf(c *api.Cluster) string {
	if c.Attainable > c.Level {
		return fmt.Sprintf("%d (%d when finalized)", c.Level, c.Attainable)
	}
	return fmt.Sprint(c.Level)
}
