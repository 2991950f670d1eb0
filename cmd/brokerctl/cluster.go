package main

import "github.com/spf13/cobra"

func newClusterCommand(g *globals) *cobra.Command {
	return newGroup("cluster", "Inspect and balance the cluster",
		newClusterInfoCommand(g), newClusterHealthCommand(g), newClusterBalanceCommand(g), newClusterRaftCommand(g))
}
