package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicPauseCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "pause TOPIC",
		Short:             "Let a topic take messages and hand out none",
		Args:              exactArgs("a TOPIC"),
		ValidArgsFunction: completeNames(g, false),
		RunE:              func(cmd *cobra.Command, args []string) error { return pauseTopic(cmd, g, args[0], true) },
	}
}

func newTopicResumeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "resume TOPIC",
		Aliases:           []string{"unpause"},
		Short:             "Let a paused topic hand out messages again",
		Args:              exactArgs("a TOPIC"),
		ValidArgsFunction: completeNames(g, false),
		RunE:              func(cmd *cobra.Command, args []string) error { return pauseTopic(cmd, g, args[0], false) },
	}
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
