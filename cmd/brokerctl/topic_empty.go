package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicEmptyCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := &cobra.Command{
		Use:               "empty TOPIC",
		Short:             "Drop the messages of a topic that no channel has got yet",
		Args:              exactArgs("a TOPIC"),
		ValidArgsFunction: completeNames(g, false),
		RunE:              func(cmd *cobra.Command, args []string) error { return emptyTopic(cmd, g, sure, args[0]) },
	}
	sure.addFlags(cmd)
	return cmd
}

func emptyTopic(cmd *cobra.Command, g *globals, sure confirmation, name string) error {
	if err := sure.ask(cmd, g, "emptying topic", name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.EmptyTopic(ctx, name); err != nil {
		return about(err, name, "")
	}
	return g.reportDone(cmd, done{Topic: name, Action: "emptied"})
}
