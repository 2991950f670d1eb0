package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// topOptions say what top shows.
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
	o.addFlags(cmd)
	return cmd
}

func (o *topOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.channels, "channels", false, "channels, most messages first (default)")
	f.BoolVar(&o.topics, "topics", false, "topics, largest first")
	f.BoolVar(&o.nodes, "nodes", false, "nodes, most led partitions first")
	f.BoolVar(&o.clients, "clients", false, "consumers, most messages in flight first")
	f.BoolVar(&o.once, "once", false, "print once")
	f.IntVarP(&o.rows, "max", "n", o.rows, "print at most `N` rows; 0 prints all")
	cmd.MarkFlagsMutuallyExclusive("channels", "topics", "nodes", "clients")
}

func top(cmd *cobra.Command, g *globals, o topOptions) error {
	if o.rows < 0 {
		return usageError("--max must not be negative")
	}
	if o.once && g.watch > 0 {
		return usageError("--once and --watch are mutually exclusive")
	}
	show := map[bool]func(context.Context) (view, string, error){
		o.topics: g.topTopics, o.nodes: g.topNodes, o.clients: g.topClients,
	}[true]
	if show == nil {
		show = g.topChannels
	}
	once := func() error {
		ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
		defer cancel()
		v, order, err := show(ctx)
		if err != nil {
			return err
		}
		v.order, v.rows = order, o.rows
		return g.show(cmd, v)
	}
	if o.once || g.watch > 0 { // the loop of --watch stands around it
		return once()
	}
	return g.repeat(cmd, defaultWatch, once)
}

func (g *globals) topChannels(ctx context.Context) (view, string, error) {
	lag, err := g.client.Insights.Lag(ctx, "", "")
	if err != nil {
		return view{}, "", err
	}
	return lagView(lag), "depth", nil
}

func (g *globals) topNodes(ctx context.Context) (view, string, error) {
	nodes, err := g.client.Nodes(ctx)
	return view{
		object: api.NodeList{Nodes: nodes},
		lines:  listing.Lines(nodes),
		names:  listing.Names(nodes, func(n api.Node) string { return n.ID }),
		text: func(p *page) {
			t := newTable("NODE", "STATE", "LEADERS", "REPLICAS", "VERSION", "+ZONE", "+HTTP")
			for _, n := range nodes {
				t.row(n.ID, n.State, count(n.Leaders), count(n.Replicas), n.Version, n.Zone, n.HTTPAddress)
			}
			p.table(t)
		},
	}, "leaders", err
}

func (g *globals) topTopics(ctx context.Context) (view, string, error) {
	topics, err := g.client.Topics(ctx)
	return view{
		object: api.TopicList{Topics: topics},
		lines:  listing.Lines(topics),
		names:  listing.Names(topics, func(t api.Topic) string { return t.Name }),
		text: func(p *page) {
			t := newTable("TOPIC", "BYTES", "PUBLISHED", "PARTITIONS", "CHANNELS", "WAITING")
			for _, x := range topics {
				waiting := x.Depth
				for _, c := range x.Channels {
					waiting += c.Depth
				}
				t.row(x.Name, size(x.Bytes), count(x.MessagesTotal), len(x.Partitions), len(x.Channels), count(waiting))
			}
			p.table(t)
			p.missing(missingOf(topics, func(t api.Topic) []string { return t.MissingNodes }))
		},
	}, "bytes", err
}

func (g *globals) topClients(ctx context.Context) (view, string, error) {
	all, err := g.client.Insights.Consumers(ctx)
	if err != nil {
		return view{}, "", err
	}
	return view{
		object: all,
		lines:  listing.Lines(all.Consumers),
		names:  listing.Names(all.Consumers, func(c api.TopicConsumer) string { return c.Address }),
		text: func(p *page) {
			t := newTable("CONSUMER", "CLIENT", "TOPIC", "CHANNEL", "READY", "IN-FLIGHT", "FINISHED", "REQUEUED", "TIMED OUT", "+USER AGENT", "+HOST")
			for _, c := range all.Consumers {
				t.row(c.Address, c.ClientID, c.Topic, c.Channel, count(c.Ready), count(c.InFlight), count(c.FinishedTotal),
					count(c.RequeuedTotal), count(c.TimedOutTotal), c.UserAgent, c.Hostname)
			}
			p.table(t)
			p.missing(all.MissingNodes)
		},
	}, "in-flight", nil
}
