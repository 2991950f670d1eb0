package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelListCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "list [TOPIC]",
		Aliases: []string{"ls"},
		Short:   "List the channels of a topic, or of all topics",
	}, func(cmd *cobra.Command, at target) error {
		if at.topic == "" {
			return answer(cmd, g, g.client.Topics, allChannelsView)
		}
		ask := func(ctx context.Context) ([]api.ChannelSummary, error) { return g.client.Channels(ctx, at.topic) }
		return answer(cmd, g, ask, func(channels []api.ChannelSummary) view { return channelsView(at.topic, channels) })
	})
}

func channelsView(topic string, channels []api.ChannelSummary) view {
	missing := missingOf(channels, func(c api.ChannelSummary) []string { return c.MissingNodes })
	return listView(api.ChannelList{Topic: topic, Channels: channels, MissingNodes: missing}, channels,
		func(c api.ChannelSummary) string { return topic + "/" + c.Name },
		newTable(channelColumns...), channelRow, func(p *page) { p.missing(missing) })
}

func allChannelsView(topics []api.Topic) view {
	all := api.ChannelsOf(topics)
	return listView(all, all.Channels, func(c api.TopicChannel) string { return c.Topic + "/" + c.Name },
		newTable(append([]string{"TOPIC"}, channelColumns...)...),
		func(c api.TopicChannel) []any { return append([]any{c.Topic}, channelRow(c.ChannelSummary)...) },
		func(p *page) { p.missing(all.MissingNodes) })
}
