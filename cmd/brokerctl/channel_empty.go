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
	}, func(cmd *cobra.Command, at target) error { return emptyChannel(cmd, g, sure, at.topic, at.channel) })
	sure.addFlags(cmd)
	return cmd
}

func emptyChannel(cmd *cobra.Command, g *globals, sure confirmation, topic, channel string) error {
	if err := sure.ask(cmd, g, "emptying channel", channel); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.EmptyChannel(ctx, topic, channel); err != nil {
		return about(err, topic, channel)
	}
	return g.reportDone(cmd, done{Topic: topic, Channel: channel, Action: "emptied"})
}
