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
	}, func(cmd *cobra.Command, at target) error {
		if err := sure.ask(cmd, g, "emptying topic", at.topic); err != nil {
			return err
		}
		return g.change(cmd, at, "emptied", func(ctx context.Context) error { return g.client.EmptyTopic(ctx, at.topic) })
	})
	sure.addFlags(cmd)
	return cmd
}
