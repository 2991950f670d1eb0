package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

type peekOptions struct {
	n         int
	partition int
	from      uint64
	filter    string
}

func newMessagePeekCommand(g *globals) *cobra.Command {
	var o peekOptions
	cmd := acting(g, &cobra.Command{
		Use:   "peek TOPIC[/CHANNEL]",
		Short: "Show messages without consuming them",
		Long: `Show the retained messages of a topic, or their state in a channel: ready, in_flight, deferred or
finished. A topic is shown from its oldest message, a channel from its first unfinished one, unless
--from is set. Nothing is consumed and no attempt is counted.`,
		Example: `  brokerctl message peek orders/invoice -n 3
  brokerctl message peek orders --partition 0 --from 1200 -o ndjson`,
	}, func(cmd *cobra.Command, at target) error {
		req, err := o.request(cmd)
		if err != nil {
			return err
		}
		return about(peek(cmd, g, at.topic, at.channel, req), at.topic, at.channel)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *peekOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&o.n, "n", "n", 10, "number of messages")
	f.IntVar(&o.partition, "partition", 0, "only this partition (default: all)")
	filterVar(f, &o.filter, "messages")
	f.Uint64Var(&o.from, "from", 0, "start at this sequence number `SEQ`")
}

func (o *peekOptions) request(cmd *cobra.Command) (api.PeekOptions, error) {
	req := api.PeekOptions{Max: o.n, Filter: o.filter}
	if o.n < 1 || o.partition < 0 {
		return req, usageError("-n must be above 0, and --partition must not be below 0")
	}
	setIf(cmd.Flags(), "partition", &req.Partition, o.partition)
	setIf(cmd.Flags(), "from", &req.From, o.from)
	return req, nil
}

func peek(cmd *cobra.Command, g *globals, topic, channel string, req api.PeekOptions) error {
	messages, err := query(cmd.Context(), g, func(ctx context.Context) ([]api.Peeked, error) {
		return g.client.Peek(ctx, topic, channel, req)
	})
	if err != nil {
		return err
	}
	return g.show(cmd, view{
		object: api.PeekedList{Messages: messages},
		lines:  listing.Lines(messages),
		names:  listing.Names(messages, func(m api.Peeked) string { return m.ID }),
		text: func(p *page) {
			t := newTable("P/SEQ", "PUBLISHED", "ATTEMPTS", "STATE", "+ID", "+HEADERS", "BODY")
			width := bodyWidth
			if p.wide {
				width = 0
			}
			for _, m := range messages {
				t.row(place(m), timeText(m.Timestamp), m.Attempts, m.State, m.ID, string(m.Headers), bodyText(m.Body, width))
			}
			p.table(t)
		},
	})
}
