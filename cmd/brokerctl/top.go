package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// topOptions define what top shows.
type topOptions struct {
	topics, channels, nodes, clients bool
	once                             bool
	rows                             int
}

func newTopCommand(g *globals) *cobra.Command {
	o := topOptions{rows: 20}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the busiest channels, topics, nodes or clients, refreshed periodically",
		Long: `Show the busiest channels, topics, nodes or clients, every 2 seconds until Ctrl-C. --once prints
them once, for scripts; --watch sets another interval, --sort-by another order.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return top(cmd, g, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.channels, "channels", false, "channels, most messages first (default)")
	f.BoolVar(&o.topics, "topics", false, "topics, largest first")
	f.BoolVar(&o.nodes, "nodes", false, "nodes, most led partitions first")
	f.BoolVar(&o.clients, "clients", false, "consumers, most messages in flight first")
	f.BoolVar(&o.once, "once", false, "print once")
	f.IntVarP(&o.rows, "max", "n", o.rows, "print at most `N` rows; 0 prints all")
	cmd.MarkFlagsMutuallyExclusive("channels", "topics", "nodes", "clients")
	return cmd
}

func top(cmd *cobra.Command, g *globals, o topOptions) error {
	if o.rows < 0 {
		return usageError("--max must not be negative")
	}
	if o.once && g.watch > 0 {
		return usageError("--once and --watch are mutually exclusive")
	}
	once := func() error {
		ordered := func(v output.View, column string) output.View {
			v.Order, v.Rows = column, o.rows
			return v
		}
		switch {
		case o.topics:
			return answer(cmd, g, g.client.Topics, func(t []api.Topic) output.View { return ordered(topTopics(t), "bytes") })
		case o.nodes:
			return answer(cmd, g, g.client.Nodes, func(n []api.Node) output.View { return ordered(topNodes(n), "leaders") })
		case o.clients:
			return answer(cmd, g, g.client.Insights.Consumers, func(c *api.ConsumerList) output.View { return ordered(topClients(c), "in-flight") })
		}
		ask := func(ctx context.Context) (*api.Lag, error) { return g.client.Insights.Lag(ctx, "", "") }
		return answer(cmd, g, ask, func(lag *api.Lag) output.View { return ordered(lagView(lag), "depth") })
	}
	if o.once || g.watch > 0 { // --watch runs the loop
		return once()
	}
	return g.repeat(cmd, defaultWatch, once)
}

func topNodes(nodes []api.Node) output.View {
	t := output.NewTable("NODE", "STATE", "LEADERS", "REPLICAS", "VERSION", "+ZONE", "+HTTP")
	return output.List(api.NodeList{Nodes: nodes}, nodes, func(n api.Node) string { return n.ID }, t, func(n api.Node) []any {
		return []any{n.ID, n.State, count(n.Leaders), count(n.Replicas), n.Version, n.Zone, n.HTTPAddress}
	})
}

func topTopics(topics []api.Topic) output.View {
	t := output.NewTable("TOPIC", "BYTES", "PUBLISHED", "PARTITIONS", "CHANNELS", "WAITING")
	return output.List(api.TopicList{Topics: topics}, topics, func(t api.Topic) string { return t.Name }, t, func(x api.Topic) []any {
		waiting := x.Depth
		for _, c := range x.Channels {
			waiting += c.Depth
		}
		return []any{x.Name, words.Size(x.Bytes), count(x.MessagesTotal), len(x.Partitions), len(x.Channels), count(waiting)}
	}, func(p *output.Page) {
		missingNote(p, words.UnionOf(topics, func(t api.Topic) []string { return t.MissingNodes }))
	})
}

func topClients(all *api.ConsumerList) output.View {
	t := output.NewTable("CONSUMER", "CLIENT", "TOPIC", "CHANNEL", "READY", "IN-FLIGHT", "FINISHED", "REQUEUED", "TIMED OUT", "+USER AGENT", "+HOST")
	return output.List(all, all.Consumers, func(c api.TopicConsumer) string { return c.Address }, t, func(c api.TopicConsumer) []any {
		return []any{
			c.Address, c.ClientID, c.Topic, c.Channel, count(c.Ready), count(c.InFlight), count(c.FinishedTotal),
			count(c.RequeuedTotal), count(c.TimedOutTotal), c.UserAgent, c.Hostname,
		}
	}, func(p *output.Page) { missingNote(p, all.MissingNodes) })
}
