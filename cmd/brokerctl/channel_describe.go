package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC/CHANNEL",
		Aliases: []string{"info"},
		Short:   "Show a channel, its positions and its consumers",
	}, func(cmd *cobra.Command, at target) error { return describeChannel(cmd, g, at.topic, at.channel) })
}

func describeChannel(cmd *cobra.Command, g *globals, topic, channel string) error {
	c, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Channel, error) { return g.client.Channel(ctx, topic, channel) })
	if err != nil {
		return about(err, topic, channel)
	}
	return g.show(cmd, channelView(c))
}
