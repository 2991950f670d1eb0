package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

type balanceOptions struct {
	req api.StartBalance
	yes bool
}

func newClusterBalanceCommand(g *globals) *cobra.Command {
	var o balanceOptions
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Show or improve the balance of leaders and replicas",
		Long: `Show how leaders and replicas are distributed over the nodes, and which changes would balance them.
Without --leaders or --replicas nothing is changed. Leadership returns to the preferred replicas
automatically some time after a failure; --leaders returns it now. Replicas never move automatically.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return balanceCluster(cmd, g, o) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *balanceOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.req.Leaders, "leaders", false, "transfer leadership to the preferred replicas")
	f.BoolVar(&o.req.Replicas, "replicas", false, "start the listed replica moves")
	f.IntVar(&o.req.Limit, "limit", 0, "maximum number of replicas to move (default: as many as may move at a time)")
	f.BoolVar(&o.yes, "yes", false, "confirm moving replicas: they are copied, then the old copies are deleted")
}

func balanceCluster(cmd *cobra.Command, g *globals, o balanceOptions) error {
	ask := g.client.Balance
	if o.req.Leaders || o.req.Replicas {
		if o.req.Replicas && !o.yes {
			e := usageError("moving replicas copies them over the network, then deletes the old copies")
			e.answer.Hint = "review the plan without --replicas, then add --yes"
			return e
		}
		ask = func(ctx context.Context) (*api.Balance, error) { return g.client.StartBalance(ctx, o.req) }
	}
	return answer(cmd, g, ask, func(b *api.Balance) view {
		return view{object: b, names: balanceNames(b), text: func(p *page) { balanceText(p, b) }}
	})
}

// balanceNames lists the partitions that change.
func balanceNames(b *api.Balance) []string {
	names := listing.Names(b.Leaders, func(m api.LeaderMove) string { return fmt.Sprintf("%s/%d", m.Topic, m.Partition) })
	return append(names, listing.Names(b.Moves, func(m api.Move) string { return fmt.Sprintf("%s/%d", m.Topic, m.Partition) })...)
}

func balanceText(p *page, b *api.Balance) {
	t := newTable("NODE", "STATE", "ZONE", "LEADERS", "PREFERRED", "REPLICAS")
	for _, n := range b.Nodes {
		t.row(n.ID, n.State, n.Zone, n.Leaders, n.Preferred, n.Replicas)
	}
	p.table(t)
	p.line("")
	if len(b.Leaders)+len(b.Moves) == 0 {
		p.line("balanced: nothing to do")
		return
	}
	c := newTable("PARTITION", "CHANGE", "FROM", "TO")
	for _, m := range b.Leaders {
		c.row(fmt.Sprintf("%s/%d", m.Topic, m.Partition), "leader", m.From, m.To)
	}
	for _, m := range b.Moves {
		c.row(fmt.Sprintf("%s/%d", m.Topic, m.Partition), "replicas", list(m.From), list(m.To))
	}
	p.table(c)
	p.line("")
	done := fmt.Sprintf("%s, %s", plural(len(b.Leaders), "leadership"), plural(len(b.Moves), "partition"))
	if b.Started {
		p.line("%s: started", done)
		return
	}
	p.line("%s could move; nothing was changed. Apply with --leaders and --replicas", done)
}
