package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterFinalizeCommand(g *globals) *cobra.Command {
	var req api.FinalizeUpgrade
	cmd := &cobra.Command{
		Use:   "finalize-upgrade",
		Short: "Enable the features of the new release, and refuse nodes of older releases",
		Long: `Raise the feature level of the cluster to the highest that the release on its nodes supports. Before that,
a new release uses no feature that the previous release does not understand, so that nodes can be downgraded.
Afterwards, a node with the previous release refuses to start, with exit code 78.

The command is refused while a node runs, or last ran, a release that does not support the level, and names
that node.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return finalizeUpgrade(cmd, g, req) },
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "show what would happen, change nothing")
	return cmd
}

func finalizeUpgrade(cmd *cobra.Command, g *globals, req api.FinalizeUpgrade) error {
	ask := func(ctx context.Context) (*api.Upgrade, error) { return g.client.Upgrades.Finalize(ctx, req) }
	return answer(cmd, g, ask, func(u *api.Upgrade) view {
		return view{object: u, names: []string{fmt.Sprint(u.Level)}, text: func(p *page) { upgradeText(p, u, req.DryRun) }}
	})
}

func upgradeText(p *page, u *api.Upgrade, dry bool) {
	switch {
	case !dry:
		p.line("feature level %d", u.Level)
	case u.Finalized:
		p.line("feature level %d: nothing to do", u.Level)
	case len(u.Lagging)+len(u.Unregistered) > 0:
		p.line("feature level %d cannot be raised to %d: not supported by %s", u.Level, u.Target, list(append(u.Lagging, u.Unregistered...)))
	default:
		p.line("dry run: feature level %d would be raised to %d", u.Level, u.Target)
	}
}
