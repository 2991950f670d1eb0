package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type electOptions struct {
	req  api.ElectLeader
	sure confirmation
}

func newPartitionElectCommand(g *globals) *cobra.Command {
	var o electOptions
	cmd := acting(g, &cobra.Command{
		Use:   "elect TOPIC/PARTITION",
		Short: "Elect a leader for an offline partition",
		Long: `Elect a leader for a partition. Without --unclean only an in-sync replica can lead, and nothing is
lost; the controller does this automatically as soon as one is up. If the partition has a leader, another in-sync
replica is elected; partition transfer does that gracefully. With --unclean any replica can lead,
and messages it does not hold are lost permanently, acknowledged or not: use it only if the other replicas
cannot be restored. The election is recorded with the reason unclean.`,
		Example: `  brokerctl partition elect orders/0 --unclean --to n2`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(); err != nil {
			return err
		}
		return electLeader(cmd, g, o, at)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *electOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.req.To, "to", "", "`NODE` to become leader")
	f.BoolVar(&o.req.Unclean, "unclean", false, "allow an out-of-sync replica to lead: messages it lacks are lost")
	o.sure.addYes(cmd)
}

func (o *electOptions) validate() error {
	if o.req.Unclean && o.req.To == "" {
		return usageError("--unclean requires --to: name the node whose replica to keep")
	}
	return nil
}

func electLeader(cmd *cobra.Command, g *globals, o electOptions, at target) error {
	if o.req.Unclean && !o.sure.yes {
		d, err := query(cmd.Context(), g, at.describe(g))
		if err != nil {
			return err
		}
		warning := fmt.Sprintf("electing %s to lead %s cannot be undone: %s", o.req.To, at, lostBy(d, o.req.To))
		if err := o.sure.askAfter(cmd, g, warning, at.String()); err != nil {
			return err
		}
	}
	return answer(cmd, g, func(ctx context.Context) (*api.PartitionDetail, error) {
		return g.client.ElectLeader(ctx, at.topic, at.partition, o.req)
	}, partitionView)
}
