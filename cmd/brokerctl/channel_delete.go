package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelDeleteCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:     "delete TOPIC/CHANNEL",
		Aliases: []string{"rm"},
		Short:   "Delete a channel and disconnect its consumers",
	}, func(cmd *cobra.Command, at target) error {
		if err := sure.ask(cmd, g, "deleting channel", at.channel); err != nil {
			return err
		}
		return g.change(cmd, at, "deleted", func(ctx context.Context) error { return g.client.DeleteChannel(ctx, at.topic, at.channel) })
	})
	sure.addFlags(cmd)
	return cmd
}
