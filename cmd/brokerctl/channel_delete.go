package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newChannelDeleteCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:     "delete TOPIC/CHANNEL",
		Aliases: []string{"rm"},
		Short:   "Delete a channel and disconnect its consumers",
	}, func(cmd *cobra.Command, at target) error {
		warning := fmt.Sprintf("deleting channel %s can be undone for a time only (brokerctl channel restore %s)", at, at)
		if strings.HasSuffix(at.channel, "#ephemeral") {
			warning = fmt.Sprintf("deleting channel %s cannot be undone", at)
		}
		if err := sure.askAfter(cmd, g, warning, at.channel); err != nil {
			return err
		}
		return g.change(cmd, at, "deleted", func(ctx context.Context) error { return g.client.DeleteChannel(ctx, at.topic, at.channel) })
	})
	sure.addYes(cmd)
	return cmd
}
