package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newChannelPauseCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "pause TOPIC/CHANNEL",
		Short: "Stop delivery to the consumers of a channel",
	}, func(cmd *cobra.Command, at target) error { return pauseChannel(cmd, g, at.topic, at.channel, true) })
}

func newChannelResumeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "resume TOPIC/CHANNEL",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery to the consumers of a channel",
	}, func(cmd *cobra.Command, at target) error { return pauseChannel(cmd, g, at.topic, at.channel, false) })
}

func pauseChannel(cmd *cobra.Command, g *globals, topic, channel string, paused bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.PauseChannel(ctx, topic, channel, paused); err != nil {
		return about(err, topic, channel)
	}
	return g.reportDone(cmd, done{Topic: topic, Channel: channel, Action: pauseAction(paused)})
}
