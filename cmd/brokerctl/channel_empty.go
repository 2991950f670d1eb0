package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelEmptyCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:   "empty TOPIC/CHANNEL",
		Short: "Discard all messages of a channel",
	}, func(cmd *cobra.Command, at target) error {
		if err := sure.ask(cmd, g, "emptying channel", at.channel); err != nil {
			return err
		}
		return g.change(cmd, at, "emptied", func(ctx context.Context) error { return g.client.EmptyChannel(ctx, at.topic, at.channel) })
	})
	sure.addFlags(cmd)
	return cmd
}
