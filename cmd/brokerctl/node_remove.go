package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

func newNodeRemoveCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove an empty node from the cluster permanently",
		Long: `Remove a node from the cluster permanently. It is refused while the node holds a replica: decommission
it first. A removed node stops; to join again it must start with an empty data directory. If it was a
voter, another node becomes one. Copies of deleted topics are lost with it: those of which it has the only
copy are named before it is removed.`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return removeNode(cmd, g, sure, args[0]) },
	}
	sure.addYes(cmd)
	return cmd
}

// removed is the result of node remove.
type removed struct {
	Node   string `json:"node"`
	Action string `json:"action"`
	// LostTopics are the deleted topics of which the node had the only copy of a partition.
	LostTopics []string `json:"lost_deleted_topics,omitempty"`
}

func removeNode(cmd *cobra.Command, g *globals, sure confirmation, id string) error {
	warning := fmt.Sprintf("removing %s stops it permanently and makes its data directory unusable", id)
	var lost []string
	switch n, err := query(cmd.Context(), g, nodeOf(g, id)); {
	case err == nil:
		lost = n.OnlyCopies
	case api.CodeOf(err) != failure.NotFound: // a member that never registered is not described
		return err
	}
	if len(lost) > 0 {
		warning += fmt.Sprintf(". It has the only copy of deleted topics, which cannot be restored then: %s; to keep one, cancel with brokerctl node "+
			"undrain %s, restore it (brokerctl topic restore T), and decommission the node again", strings.Join(lost, " "), id)
	}
	if err := sure.askAfter(cmd, g, warning, id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.RemoveNode(ctx, id); err != nil {
		return err
	}
	return g.show(cmd, view{object: removed{id, "removed", lost}, names: []string{id}, text: func(p *page) {
		if !g.quiet {
			p.line("node %s removed", id)
			if len(lost) > 0 {
				p.line("deleted topics that can no longer be restored: %s", strings.Join(lost, " "))
			}
		}
	}})
}
