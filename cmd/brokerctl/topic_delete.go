package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicDeleteCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:     "delete TOPIC",
		Aliases: []string{"rm"},
		Short:   "Delete a topic, its messages and its channels",
	}, func(cmd *cobra.Command, at target) error { return deleteTopic(cmd, g, sure, at.topic) })
	sure.addFlags(cmd)
	return cmd
}

func deleteTopic(cmd *cobra.Command, g *globals, sure confirmation, name string) error {
	if err := sure.ask(cmd, g, "deleting topic", name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	if err := g.client.DeleteTopic(ctx, name); err != nil {
		return about(err, name, "")
	}
	return g.reportDone(cmd, done{Topic: name, Action: "deleted"})
}
