package main

import "github.com/spf13/cobra"

func newClusterCommand(g *globals) *cobra.Command {
	return newGroup("cluster", "Inspect, balance and upgrade the cluster",
		newClusterInfoCommand(g), newClusterHealthCommand(g), newClusterBalanceCommand(g), newClusterRaftCommand(g), newClusterFinalizeCommand(g))
}
