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
		Short: "Have another in-sync replica lead a partition",
		Long: `Have another in-sync replica lead a partition. The leader hands over in order: no publish fails and
nothing is delivered twice. Without --to the best one is chosen.`,
	}, func(cmd *cobra.Command, at target) error {
		d, err := query(cmd.Context(), g, func(ctx context.Context) (*api.PartitionDetail, error) {
			return g.client.TransferLeader(ctx, at.topic, at.partition, api.TransferLeader{To: to})
		})
		if err != nil {
			return about(err, at.topic, "")
		}
		return g.show(cmd, partitionView(d))
	})
	cmd.Flags().StringVar(&to, "to", "", "the `NODE` that is to lead")
	return cmd
}
