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
	}, func(cmd *cobra.Command, at target) error { return deleteChannel(cmd, g, sure, at.topic, at.channel) })
	sure.addFlags(cmd)
	return cmd
}

func deleteChannel(cmd *cobra.Command, g *globals, sure confirmation, topic, channel string) error {
	if err := sure.ask(cmd, g, "deleting channel", channel); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.DeleteChannel(ctx, topic, channel); err != nil {
		return about(err, topic, channel)
	}
	return g.reportDone(cmd, done{Topic: topic, Channel: channel, Action: "deleted"})
}
