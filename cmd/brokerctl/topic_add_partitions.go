package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type addPartitionsOptions struct {
	total int
}

func newTopicAddPartitionsCommand(g *globals) *cobra.Command {
	var o addPartitionsOptions
	cmd := acting(g, &cobra.Command{
		Use:   "add-partitions TOPIC --partitions N",
		Short: "Add partitions to a topic",
		Long: `Raise the number of partitions of a topic to N. It cannot be lowered again, and keys map to different
partitions than before.`,
		Example: `  brokerctl topic add-partitions orders --partitions 8`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(); err != nil {
			return err
		}
		return addPartitions(cmd, g, at.topic, o.total)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *addPartitionsOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVarP(&o.total, "partitions", "p", 0, "total number of partitions")
}

func (o *addPartitionsOptions) validate() error {
	if o.total < 1 {
		return usageError("--partitions must be set to the total number of partitions")
	}
	return nil
}

func addPartitions(cmd *cobra.Command, g *globals, name string, total int) error {
	t, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.AddPartitions(ctx, name, total) })
	if err != nil {
		return about(err, name, "")
	}
	return g.show(cmd, topicView(t))
}
