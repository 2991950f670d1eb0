package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type nodeDrainOptions struct {
	req  api.DrainNode
	wait bool
}

func newNodeDrainCommand(g *globals) *cobra.Command {
	var o nodeDrainOptions
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all leaderships off a node before stopping it",
		Long: `Move all leaderships off a node: other in-sync replicas take over gracefully, and the node leads
nothing until it is undrained, even after a restart. It continues to serve clients and to follow.
The drain is refused if a partition would lose its leader; with --stopping also if a partition
would fall below min_isr and refuse messages once the node is stopped.`,
		Example: `  brokerctl node drain n2 --stopping --wait && ssh n2 systemctl restart brokerd && brokerctl node undrain n2`,
		Args:    exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return drainNode(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *nodeDrainOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "wait until it leads nothing")
	f.BoolVar(&o.req.Stopping, "stopping", false, "also require that enough replicas stay in sync once the node is stopped")
	f.BoolVar(&o.req.Force, "force", false, "drain even if some partitions have no other in-sync replica")
}

func drainNode(cmd *cobra.Command, g *globals, o nodeDrainOptions, id string) error {
	n, err := query(cmd.Context(), g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.DrainNode(ctx, id, o.req) })
	if err != nil {
		return err
	}
	if o.wait {
		if n, err = waitFor(cmd, g, nodeOf(g, id), drained); err != nil {
			return err
		}
	}
	return g.show(cmd, nodeSummary(n))
}

func nodeOf(g *globals, id string) func(context.Context) (*api.NodeDetail, error) {
	return func(ctx context.Context) (*api.NodeDetail, error) { return g.client.Node(ctx, id) }
}

// drained reports whether a node leads no partition.
func drained(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s leads %s", n.ID, plural(n.Leaders, "partition"))
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d of them have no other in-sync replica", len(n.Troubles))
	}
	return text, n.Leaders == 0
}

func newNodeUndrainCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "undrain NODE",
		Short: "Cancel a drain or decommission of a node",
		Long:  `Cancel a drain or a decommission. Replicas that have already moved stay where they are.`,
		Args:  exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answer(cmd, g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.UndrainNode(ctx, args[0]) }, nodeSummary)
		},
	}
}
