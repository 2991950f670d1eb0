package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelPauseCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "pause TOPIC/CHANNEL",
		Short: "Stop delivery to the consumers of a channel",
	}, func(cmd *cobra.Command, at target) error { return pauseChannel(cmd, g, at, true) })
}

func newChannelResumeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "resume TOPIC/CHANNEL",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery to the consumers of a channel",
	}, func(cmd *cobra.Command, at target) error { return pauseChannel(cmd, g, at, false) })
}

func pauseChannel(cmd *cobra.Command, g *globals, at target, paused bool) error {
	return g.change(cmd, at, pauseAction(paused), func(ctx context.Context) error {
		return g.client.PauseChannel(ctx, at.topic, at.channel, paused)
	})
}
