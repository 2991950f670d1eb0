package main

import (
	"context"
	"fmt"
	"strings"

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
		Short: "Move all data off a node before removing it",
		Long: `Move all data off a node: it is drained, and its replicas move to other nodes, a few at a time. A
replica is removed from it only after its replacement is in sync. The node may be down. When it holds
no replicas, stop it and remove it. To cancel, use brokerctl node undrain.`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return decommissionNode(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *decommissionOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "wait until it holds nothing")
	f.BoolVar(&o.req.Force, "force", false, "start even if the other nodes are too few for all replicas")
	f.BoolVar(&o.req.DryRun, "dry-run", false, "show what would happen without changing anything")
	o.sure.addYes(cmd)
}

func decommissionNode(cmd *cobra.Command, g *globals, o decommissionOptions, id string) error {
	if o.wait && o.req.DryRun {
		return usageError("--wait and --dry-run are mutually exclusive")
	}
	n, err := query(cmd.Context(), g, nodeOf(g, id))
	if err != nil {
		return err
	}
	warning := fmt.Sprintf("decommissioning %s moves its %s and %s to other nodes: no data is lost, but much may be copied",
		id, plural(n.Leaders, "leadership"), plural(n.Replicas, "replica"))
	if text := deletedAt(n); text != "" {
		warning += ". Of deleted topics, " + text
	}
	start := func(ctx context.Context) (*api.NodeDetail, error) { return g.client.DecommissionNode(ctx, id, o.req) }
	if o.req.DryRun {
		return showDryRun(cmd, g, start, warning, id)
	}
	if err := o.sure.askAfter(cmd, g, warning, id); err != nil {
		return err
	}
	n, err = query(cmd.Context(), g, start)
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
			holds := "nothing"
			if len(n.OnlyCopies) > 0 {
				holds = "nothing but the only copy of deleted topics (" + strings.Join(n.OnlyCopies, " ") + ")"
			}
			p.line("%s holds %s; next: %sbrokerctl node remove %s", n.ID, holds, stop, n.ID)
		}
	}
	return g.show(cmd, v)
}

// evacuated reports whether a node holds no replicas.
func evacuated(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s holds %s", n.ID, plural(n.Replicas, "replica"))
	if n.Left.Moving > 0 {
		text += fmt.Sprintf(", %d moving", n.Left.Moving)
	}
	if left := progress(n.Left); left != "" {
		text += ", " + left
	}
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d stuck: %s", len(n.Troubles), n.Troubles[0].What)
	}
	return text, n.Replicas == 0
}
