package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelDescribeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "describe TOPIC CHANNEL",
		Aliases:           []string{"info"},
		Short:             "Show a channel, its places and its consumers",
		Args:              exactArgs("a TOPIC", "a CHANNEL"),
		ValidArgsFunction: completeNames(g, true),
		RunE:              func(cmd *cobra.Command, args []string) error { return describeChannel(cmd, g, args[0], args[1]) },
	}
}

func describeChannel(cmd *cobra.Command, g *globals, topic, channel string) error {
	c, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Channel, error) { return g.client.Channel(ctx, topic, channel) })
	if err != nil {
		return about(err, topic, channel)
	}
	return g.show(cmd, channelView(c))
}
