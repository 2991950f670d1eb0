package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type decommissionOptions struct {
	req  api.DecommissionNode
	wait bool
	sure confirmation
}

func newNodeDecommissionCommand(g *globals) *cobra.Command {
	var o decommissionOptions
	cmd := &cobra.Command{
		Use:   "decommission NODE",
		Short: "Move everything off a node, so that it can be removed",
		Long: `Move everything off a node: it is drained, and other nodes get its replicas, a few at a time. Nothing
is taken from it before the others are in sync. It need not be alive. When it holds nothing, stop it
and remove it. brokerctl node undrain takes it back.`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return decommissionNode(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *decommissionOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "return when it holds nothing")
	f.BoolVar(&o.req.Force, "force", false, "begin though the other nodes are too few for all replicas")
	o.sure.addYes(cmd)
}

func decommissionNode(cmd *cobra.Command, g *globals, o decommissionOptions, id string) error {
	n, err := query(cmd.Context(), g, nodeOf(g, id))
	if err != nil {
		return err
	}
	warning := fmt.Sprintf("decommissioning %s gives its %s and %s to other nodes: nothing is lost, much may be copied",
		id, plural(n.Leaders, "leadership"), plural(n.Replicas, "replica"))
	if err := o.sure.askAfter(cmd, g, warning, id); err != nil {
		return err
	}
	n, err = query(cmd.Context(), g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.DecommissionNode(ctx, id, o.req) })
	if err != nil {
		return err
	}
	if o.wait {
		if n, err = waitFor(cmd, g, nodeOf(g, id), evacuated); err != nil {
			return err
		}
	}
	v := nodeSummary(n)
	text := v.text
	v.text = func(p *page) {
		text(p)
		if n.Removable && !g.quiet {
			stop := "stop it, then "
			if n.State == api.NodeDown {
				stop = ""
			}
			p.line("%s holds nothing: %sbrokerctl node remove %s", n.ID, stop, n.ID)
		}
	}
	return g.show(cmd, v)
}

// evacuated says whether a node holds nothing any more.
func evacuated(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s holds %s", n.ID, plural(n.Replicas, "replica"))
	if n.Left.Moving > 0 {
		text += fmt.Sprintf(", %d on the move", n.Left.Moving)
	}
	if left := progress(n.Left); left != "" {
		text += ", " + left
	}
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d stuck: %s", len(n.Troubles), n.Troubles[0].What)
	}
	return text, n.Replicas == 0
}
