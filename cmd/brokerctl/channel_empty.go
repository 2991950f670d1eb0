package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newChannelEmptyCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:   "empty TOPIC/CHANNEL",
		Short: "Discard all messages of a channel",
	}, func(cmd *cobra.Command, at target) error {
		warning := fmt.Sprintf("emptying channel %s can be undone for a time only (brokerctl channel undo %s)", at, at)
		if err := sure.askAfter(cmd, g, warning, at.channel); err != nil {
			return err
		}
		return g.change(cmd, at, "emptied", func(ctx context.Context) error { return g.client.EmptyChannel(ctx, at.topic, at.channel) })
	})
	sure.addYes(cmd)
	return cmd
}
