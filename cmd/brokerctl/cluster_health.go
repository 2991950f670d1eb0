package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterHealthCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Show whether the cluster is healthy, and why not",
		Long: `Show whether the cluster is healthy, and why not. The exit code is 0 if it is healthy, 11 if it is
degraded (it serves, with reduced redundancy), 10 if it is unhealthy, and 6 if no node responds.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return showHealth(cmd, g) },
	}
}

func showHealth(cmd *cobra.Command, g *globals) error {
	h, err := query(cmd.Context(), g, g.client.Health)
	if err != nil {
		return err
	}
	var c *api.Cluster
	if g.format == formatTable || g.format == formatWide {
		c, _ = query(cmd.Context(), g, func(ctx context.Context) (*api.Cluster, error) { return g.client.Cluster(ctx) }) // optional detail
	}
	word, exit := judge(h)
	err = g.show(cmd, view{
		object: h,
		names:  []string{strings.ToLower(word)},
		text:   func(p *page) { healthText(p, word, h, c) },
	})
	if err == nil && exit != exitOK {
		return verdict(exit)
	}
	return err
}

// judge returns the name of a health and its exit code.
func judge(h *api.Health) (word string, exit int) {
	switch {
	case h.Healthy && !h.Degraded:
		return "HEALTHY", exitOK
	case h.Degraded:
		return "DEGRADED", exitDegraded
	}
	return "UNHEALTHY", exitUnhealthy
}

// healthText prints the health and its reasons; c may be nil.
func healthText(p *page, word string, h *api.Health, c *api.Cluster) {
	summary := word
	if c != nil {
		controller := "no controller"
		if c.Controller != "" {
			controller = "controller " + c.Controller
		}
		summary = fmt.Sprintf("%s   %s   %s nodes   %s", word, c.ClusterID, upOf(c.Nodes), controller)
	}
	p.line("%s", summary)
	if len(h.Reasons) == 0 {
		return
	}
	p.line("")
	t := newTable("REASON", "COUNT", "WHAT")
	for _, r := range h.Reasons {
		t.row(r.Code, r.Count, r.What)
	}
	p.table(t)
}

// upOf formats the number of nodes that are up.
func upOf(nodes []api.Node) string {
	up := 0
	for _, n := range nodes {
		if n.State != api.NodeDown && !n.Silent {
			up++
		}
	}
	return fmt.Sprintf("%d/%d", up, len(nodes))
}
