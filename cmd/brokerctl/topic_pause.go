package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicPauseCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "pause TOPIC",
		Short: "Stop delivery from a topic to its channels",
	}, func(cmd *cobra.Command, at target) error { return pauseTopic(cmd, g, at.topic, true) })
}

func newTopicResumeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "resume TOPIC",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery from a topic to its channels",
	}, func(cmd *cobra.Command, at target) error { return pauseTopic(cmd, g, at.topic, false) })
}

func pauseTopic(cmd *cobra.Command, g *globals, name string, paused bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.PauseTopic(ctx, name, paused); err != nil {
		return about(err, name, "")
	}
	return g.reportDone(cmd, done{Topic: name, Action: pauseAction(paused)})
}

func pauseAction(paused bool) string {
	if paused {
		return "paused"
	}
	return "resumed"
}
