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
		Short: "Have a node lead nothing, before it is stopped",
		Long: `Have a node lead nothing: other in-sync replicas take over, in order, and the node is given no
leadership until it is undrained, also after a restart. It goes on serving clients and following.
It is refused where a partition would be without a leader; with --stopping also where one would
refuse messages for want of replicas in sync once the node is stopped.`,
		Example: `  brokerctl node drain n2 --stopping --wait && ssh n2 systemctl restart brokerd && brokerctl node undrain n2`,
		Args:    exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return drainNode(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *nodeDrainOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "return when it leads nothing")
	f.BoolVar(&o.req.Stopping, "stopping", false, "the node is about to be stopped: see that enough replicas stay in sync without it")
	f.BoolVar(&o.req.Force, "force", false, "drain though some partitions have nowhere to go: what can go goes")
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

// drained says whether a node leads nothing any more.
func drained(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s leads %s", n.ID, plural(n.Leaders, "partition"))
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d of them have nowhere to go", len(n.Troubles))
	}
	return text, n.Leaders == 0
}

func newNodeUndrainCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "undrain NODE",
		Short: "Let a node lead again, and keep what it holds",
		Long:  `Take back a drain, or a decommission: replicas that have moved away stay where they are.`,
		Args:  exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := query(cmd.Context(), g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.UndrainNode(ctx, args[0]) })
			if err != nil {
				return err
			}
			return g.show(cmd, nodeSummary(n))
		},
	}
}
