package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelListCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "list [TOPIC]",
		Aliases: []string{"ls"},
		Short:   "List the channels of a topic, or of all topics",
	}, func(cmd *cobra.Command, at target) error {
		if at.topic == "" {
			return listAllChannels(cmd, g)
		}
		return listChannels(cmd, g, at.topic)
	})
}

func listChannels(cmd *cobra.Command, g *globals, topic string) error {
	channels, err := query(cmd.Context(), g, func(ctx context.Context) ([]api.ChannelSummary, error) { return g.client.Channels(ctx, topic) })
	if err != nil {
		return about(err, topic, "")
	}
	missing := missingOf(channels, func(c api.ChannelSummary) []string { return c.MissingNodes })
	return g.show(cmd, view{
		object: api.ChannelList{Topic: topic, Channels: channels, MissingNodes: missing},
		lines:  listing.Lines(channels),
		names:  listing.Names(channels, func(c api.ChannelSummary) string { return topic + "/" + c.Name }),
		text: func(p *page) {
			channelTable(p, channels)
			p.missing(missing)
		},
	})
}

func listAllChannels(cmd *cobra.Command, g *globals) error {
	topics, err := query(cmd.Context(), g, g.client.Topics)
	if err != nil {
		return err
	}
	all := api.ChannelsOf(topics)
	return g.show(cmd, view{
		object: all,
		lines:  listing.Lines(all.Channels),
		names:  listing.Names(all.Channels, func(c api.TopicChannel) string { return c.Topic + "/" + c.Name }),
		text: func(p *page) {
			t := newTable(append([]string{"TOPIC"}, channelColumns...)...)
			for _, c := range all.Channels {
				t.row(append([]any{c.Topic}, channelRow(c.ChannelSummary)...)...)
			}
			p.table(t)
			p.missing(all.MissingNodes)
		},
	})
}
