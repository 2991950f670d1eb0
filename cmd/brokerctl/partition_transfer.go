package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newPartitionTransferCommand(g *globals) *cobra.Command {
	var to string
	cmd := acting(g, &cobra.Command{
		Use:   "transfer TOPIC/PARTITION",
		Short: "Transfer leadership of a partition to another in-sync replica",
		Long: `Transfer leadership of a partition to another in-sync replica, gracefully: no publish fails.
Consumers get up to a second to answer the messages they have; what they answer later is delivered again.
Without --to the controller chooses the replica.`,
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.PartitionDetail, error) {
			return g.client.TransferLeader(ctx, at.topic, at.partition, api.TransferLeader{To: to})
		}, partitionView)
	})
	cmd.Flags().StringVar(&to, "to", "", "`NODE` to become leader")
	return cmd
}
