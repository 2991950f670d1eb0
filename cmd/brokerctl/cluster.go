package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/settings"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterCommand(g *globals) *cobra.Command {
	return newGroup("cluster", "Inspect, balance and upgrade the cluster",
		newClusterInfoCommand(g), newClusterHealthCommand(g), newClusterMapCommand(g), newClusterBalanceCommand(g), newClusterRaftCommand(g), newClusterFinalizeCommand(g),
		settings.ConfigCommand(g.shell()))
}

func newClusterInfoCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show the cluster and its nodes",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return answer(cmd, g, g.client.Cluster, clusterView) },
	}
}

func clusterView(c *api.Cluster) output.View {
	return output.View{
		Object: c,
		Names:  []string{c.ClusterID},
		Text: func(p *output.Page) {
			t := output.NewTable("CLUSTER", "CONTROLLER", "NODES", "VOTERS", "LEVEL", "+ANSWERED BY")
			voters := 0
			for _, n := range c.Nodes {
				if n.Voter {
					voters++
				}
			}
			t.Row(c.ClusterID, c.Controller, upOf(c.Nodes), voters, levelOf(c), c.Self)
			p.Table(t)
			p.Line("")
			nodeTable(p, c.Nodes)
		},
	}
}

// levelOf formats the feature level of a cluster, and the level to which it could be raised.
func levelOf(c *api.Cluster) string {
	if c.Attainable > c.Level {
		return fmt.Sprintf("%d (%d when finalized)", c.Level, c.Attainable)
	}
	return fmt.Sprint(c.Level)
}

func newClusterHealthCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Show whether the cluster is healthy, and why not",
		Long: `Show whether the cluster is healthy, and why not. The exit code is 0 if it is healthy, 11 if it is
degraded (it serves, with reduced redundancy), 10 if it is unhealthy, and 6 if no node responds.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := query(cmd.Context(), g, g.client.Health)
			if err != nil {
				return err
			}
			var c *api.Cluster
			if g.format == output.FormatTable || g.format == output.FormatWide {
				c, _ = query(cmd.Context(), g, func(ctx context.Context) (*api.Cluster, error) { return g.client.Cluster(ctx) }) // optional detail
			}
			word, exit := judge(h)
			err = g.show(cmd, output.View{
				Object: h,
				Names:  []string{strings.ToLower(word)},
				Text:   func(p *output.Page) { healthText(p, word, h, c) },
			})
			if err == nil && exit != exitOK {
				return verdict(exit)
			}
			return err
		},
	}
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
func healthText(p *output.Page, word string, h *api.Health, c *api.Cluster) {
	summary := word
	if c != nil {
		controller := "no controller"
		if c.Controller != "" {
			controller = "controller " + c.Controller
		}
		summary = fmt.Sprintf("%s   %s   %s nodes   %s", word, c.ClusterID, upOf(c.Nodes), controller)
	}
	p.Line("%s", summary)
	if len(h.Reasons) == 0 {
		return
	}
	p.Line("")
	t := output.NewTable("REASON", "COUNT", "WHAT")
	for _, r := range h.Reasons {
		t.Row(r.Code, r.Count, r.What)
	}
	p.Table(t)
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

func newClusterRaftCommand(g *globals) *cobra.Command {
	var transfer bool
	cmd := &cobra.Command{
		Use:   "raft",
		Short: "Show the metadata voters and their progress",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := g.client.Raft
			if transfer {
				if ask = g.client.TransferController; g.watch != 0 {
					return usageError("--watch repeats read-only commands only: it excludes --transfer")
				}
			}
			return answer(cmd, g, ask, func(r *api.Raft) output.View {
				return output.View{
					Object: r,
					Lines:  listing.Lines(r.Members),
					Names:  listing.Names(r.Members, func(m api.RaftMember) string { return m.ID }),
					Text:   func(p *output.Page) { raftText(p, r) },
				}
			})
		},
	}
	cmd.Flags().BoolVar(&transfer, "transfer", false, "transfer metadata leadership and the controller role to another voter first")
	return cmd
}

func raftText(p *output.Page, r *api.Raft) {
	leader := "no leader"
	if r.Leader != "" {
		leader = "leader " + r.Leader
	}
	p.Line("%s   term %d   %s, %s", leader, r.Term, plural(r.Voters, "voter"), tolerates(r.Tolerance))
	p.Line("")
	t := output.NewTable("NODE", "VOTER", "ROLE", "LAST", "COMMITTED", "APPLIED", "CONTACT", "ADDRESS", "+TERM", "+SNAPSHOT", "+STORE")
	for _, m := range r.Members {
		voter := voterText(m.Voter)
		if !m.Answered {
			t.Row(m.ID, voter, "no answer", "", "", "", "", m.Address, "", "", "")
			continue
		}
		contact := age(m.LastContact)
		if m.LastContact < 0 {
			contact = "never"
		}
		t.Row(m.ID, voter, roleOf(m.Leader), count(m.LastIndex), count(m.CommitIndex), count(m.AppliedIndex), contact, m.Address,
			m.Term, count(m.SnapshotIndex), words.Size(m.StoreBytes))
	}
	p.Table(t)
}

// tolerates formats how many failures are tolerated.
func tolerates(n int) string {
	if n < 0 {
		return fmt.Sprintf("%d more must be up", -n)
	}
	return "tolerates " + plural(n, "failure")
}

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
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := func(ctx context.Context) (*api.Upgrade, error) { return g.client.Upgrades.Finalize(ctx, req) }
			return answer(cmd, g, ask, func(u *api.Upgrade) output.View {
				return output.View{Object: u, Names: []string{fmt.Sprint(u.Level)}, Text: func(p *output.Page) { upgradeText(p, u, req.DryRun) }}
			})
		},
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "show what would happen, change nothing")
	return cmd
}

func upgradeText(p *output.Page, u *api.Upgrade, dry bool) {
	switch {
	case !dry:
		p.Line("feature level %d", u.Level)
	case u.Finalized:
		p.Line("feature level %d: nothing to do", u.Level)
	case len(u.Lagging)+len(u.Unregistered) > 0:
		p.Line("feature level %d cannot be raised to %d: not supported by %s", u.Level, u.Target, list(append(u.Lagging, u.Unregistered...)))
	default:
		p.Line("dry run: feature level %d would be raised to %d", u.Level, u.Target)
	}
}

func newClusterBalanceCommand(g *globals) *cobra.Command {
	var req api.StartBalance
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Show or improve the balance of leaders and replicas",
		Long: `Show how leaders and replicas are distributed over the nodes, and which changes would balance them.
Without --leaders or --replicas nothing is changed. Leadership returns to the preferred replicas
automatically some time after a failure; --leaders returns it now. Replicas never move automatically.
--dry-run shows what --leaders, --replicas and --limit would start.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validateBalance(cmd, &req); err != nil {
				return err
			}
			return balanceCluster(cmd, g, req)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&req.Leaders, "leaders", false, "transfer leadership to the preferred replicas")
	f.BoolVar(&req.Replicas, "replicas", false, "start the listed replica moves")
	f.IntVar(&req.Limit, "limit", 0, "maximum number of partitions whose replicas move (default: as many as may move at a time)")
	f.BoolVar(&req.DryRun, "dry-run", false, "show what would be started without changing anything")
	return cmd
}

func validateBalance(cmd *cobra.Command, req *api.StartBalance) error {
	limited := cmd.Flags().Changed("limit")
	switch {
	case limited && req.Limit < 1:
		return usageError("--limit must be above 0")
	case limited && !req.Replicas:
		return usageError("--limit applies to --replicas")
	case req.DryRun && !req.Leaders && !req.Replicas: // of all
		req.Leaders, req.Replicas = true, true
	}
	return nil
}

func balanceCluster(cmd *cobra.Command, g *globals, req api.StartBalance) error {
	ask := g.client.Balance
	if req.Leaders || req.Replicas {
		if req.Replicas && !g.yes && !req.DryRun {
			e := usageError("moving replicas copies them over the network, then deletes the old copies")
			e.answer.Hint = "review the plan with --dry-run, then add --yes"
			return e
		}
		ask = func(ctx context.Context) (*api.Balance, error) { return g.client.StartBalance(ctx, req) }
	}
	return answer(cmd, g, ask, func(b *api.Balance) output.View {
		return output.View{Object: b, Names: balanceNames(b), Text: func(p *output.Page) { balanceText(p, b) }}
	})
}

// balanceNames lists the partitions that change.
func balanceNames(b *api.Balance) []string {
	names := listing.Names(b.Leaders, func(m api.LeaderMove) string { return fmt.Sprintf("%s/%d", m.Topic, m.Partition) })
	return append(names, listing.Names(b.Moves, func(m api.Move) string { return fmt.Sprintf("%s/%d", m.Topic, m.Partition) })...)
}

func balanceText(p *output.Page, b *api.Balance) {
	t := output.NewTable("NODE", "STATE", "ZONE", "LEADERS", "PREFERRED", "REPLICAS")
	for _, n := range b.Nodes {
		t.Row(n.ID, n.State, n.Zone, n.Leaders, n.Preferred, n.Replicas)
	}
	p.Table(t)
	p.Line("")
	if len(b.Leaders)+len(b.Moves) == 0 {
		p.Line("balanced: nothing to do")
		return
	}
	c := output.NewTable("PARTITION", "CHANGE", "FROM", "TO")
	for _, m := range b.Leaders {
		c.Row(fmt.Sprintf("%s/%d", m.Topic, m.Partition), "leader", m.From, m.To)
	}
	for _, m := range b.Moves {
		c.Row(fmt.Sprintf("%s/%d", m.Topic, m.Partition), "replicas", list(m.From), list(m.To))
	}
	p.Table(c)
	p.Line("")
	done := fmt.Sprintf("%s, %s", plural(len(b.Leaders), "leadership"), plural(len(b.Moves), "partition"))
	if b.Started {
		p.Line("%s: started", done)
		return
	}
	p.Line("%s could move; nothing was changed. Apply with --leaders and --replicas", done)
}
