package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newNodeRemoveCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove an empty node from the cluster permanently",
		Long: `Remove a node from the cluster permanently. It is refused while the node holds a replica: decommission
it first. A removed node stops; to join again it must start with an empty data directory. If it was a
voter, another node becomes one.`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return removeNode(cmd, g, sure, args[0]) },
	}
	sure.addYes(cmd)
	return cmd
}

// removed is the answer of node remove.
type removed struct {
	Node   string `json:"node"`
	Action string `json:"action"`
}

func removeNode(cmd *cobra.Command, g *globals, sure confirmation, id string) error {
	warning := fmt.Sprintf("removing %s stops it permanently and makes its data directory unusable", id)
	if err := sure.askAfter(cmd, g, warning, id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.RemoveNode(ctx, id); err != nil {
		return err
	}
	return g.show(cmd, view{object: removed{id, "removed"}, names: []string{id}, text: func(p *page) {
		if !g.quiet {
			p.line("node %s removed", id)
		}
	}})
}
