package main

import "github.com/spf13/cobra"

func newClusterCommand(g *globals) *cobra.Command {
	return newGroup("cluster", "Look at the cluster as a whole",
		newClusterInfoCommand(g), newClusterHealthCommand(g), newClusterBalanceCommand(g), newClusterRaftCommand(g))
}
