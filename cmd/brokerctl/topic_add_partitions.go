package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicAddPartitionsCommand(g *globals) *cobra.Command {
	var total int
	cmd := acting(g, &cobra.Command{
		Use:   "add-partitions TOPIC --partitions N",
		Short: "Add partitions to a topic",
		Long: `Raise the number of partitions of a topic to N. It cannot be lowered again, and keys move to other
partitions.`,
		Example: `  brokerctl topic add-partitions orders --partitions 8`,
	}, func(cmd *cobra.Command, at target) error {
		if total < 1 {
			return usageError("--partitions must be set to the total number of partitions")
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.AddPartitions(ctx, at.topic, total) }, topicView)
	})
	cmd.Flags().IntVarP(&total, "partitions", "p", 0, "total number of partitions")
	return cmd
}
