package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicPauseCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "pause TOPIC",
		Short: "Stop delivery from a topic to its channels",
	}, func(cmd *cobra.Command, at target) error { return pauseTopic(cmd, g, at, true) })
}

func newTopicResumeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "resume TOPIC",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery from a topic to its channels",
	}, func(cmd *cobra.Command, at target) error { return pauseTopic(cmd, g, at, false) })
}

func pauseTopic(cmd *cobra.Command, g *globals, at target, paused bool) error {
	return g.change(cmd, at, pauseAction(paused), func(ctx context.Context) error { return g.client.PauseTopic(ctx, at.topic, paused) })
}

func pauseAction(paused bool) string {
	if paused {
		return "paused"
	}
	return "resumed"
}
