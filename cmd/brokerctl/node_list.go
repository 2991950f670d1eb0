package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newNodeListCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the nodes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return answer(cmd, g, g.client.Nodes, nodesView) },
	}
}

func nodesView(nodes []api.Node) view {
	return view{
		object: api.NodeList{Nodes: nodes},
		lines:  listing.Lines(nodes),
		names:  listing.Names(nodes, func(n api.Node) string { return n.ID }),
		text:   func(p *page) { nodeTable(p, nodes) },
	}
}

// httpAddresses returns the HTTP addresses of the cluster's nodes.
func (g *globals) httpAddresses(ctx context.Context) ([]string, error) {
	nodes, err := query(ctx, g, g.client.Nodes)
	if err != nil {
		return nil, err
	}
	return listing.Names(nodes, func(n api.Node) string { return n.HTTPAddress }), nil
}
