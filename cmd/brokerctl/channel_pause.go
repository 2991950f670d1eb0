package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelPauseCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "pause TOPIC CHANNEL",
		Short:             "Stop handing a channel's messages to its consumers",
		Args:              exactArgs("a TOPIC", "a CHANNEL"),
		ValidArgsFunction: completeNames(g, true),
		RunE:              func(cmd *cobra.Command, args []string) error { return pauseChannel(cmd, g, args[0], args[1], true) },
	}
}

func newChannelResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "resume TOPIC CHANNEL",
		Aliases:           []string{"unpause"},
		Short:             "Hand out a paused channel's messages again",
		Args:              exactArgs("a TOPIC", "a CHANNEL"),
		ValidArgsFunction: completeNames(g, true),
		RunE:              func(cmd *cobra.Command, args []string) error { return pauseChannel(cmd, g, args[0], args[1], false) },
	}
}

func pauseChannel(cmd *cobra.Command, g *globals, topic, channel string, paused bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.PauseChannel(ctx, topic, channel, paused); err != nil {
		return about(err, topic, channel)
	}
	return g.reportDone(cmd, done{Topic: topic, Channel: channel, Action: pauseAction(paused)})
}
