package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelEmptyCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := &cobra.Command{
		Use:               "empty TOPIC CHANNEL",
		Short:             "Finish every message of a channel, unread",
		Args:              exactArgs("a TOPIC", "a CHANNEL"),
		ValidArgsFunction: completeNames(g, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return emptyChannel(cmd, g, sure, args[0], args[1])
		},
	}
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
