package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newTopicEmptyCommand(g *globals) *cobra.Command {
	var sure confirmation
	cmd := acting(g, &cobra.Command{
		Use:   "empty TOPIC",
		Short: "Delete the messages of a topic that have not reached any channel",
	}, func(cmd *cobra.Command, at target) error { return emptyTopic(cmd, g, sure, at.topic) })
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
