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
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) { return g.client.Channel(ctx, at.topic, at.channel) }, channelView)
	})
}
