package main

import (
	"context"

	"github.com/spf13/cobra"

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
		ask := func(ctx context.Context) ([]api.Peeked, error) { return g.client.Peek(ctx, at.topic, at.channel, req) }
		return answer(cmd, g, ask, g.peekedView)
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

func (g *globals) peekedView(messages []api.Peeked) view {
	t := newTable("P/SEQ", "PUBLISHED", "ATTEMPTS", "STATE", "+ID", "+HEADERS", "BODY")
	return listView(api.PeekedList{Messages: messages}, messages, func(m api.Peeked) string { return m.ID }, t, func(m api.Peeked) []any {
		return []any{place(m), timeText(m.Timestamp), m.Attempts, m.State, m.ID, string(m.Headers), g.bodyCell(m.Body)}
	})
}
