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
		Short: "Give a partition that is offline a leader",
		Long: `Give a partition a leader. Without --unclean only a replica that is in sync can lead, and nothing is
lost; the controller does that by itself as soon as one is up. With --unclean any replica can, and what
it does not hold is lost for good, acknowledged or not: it is for when the others do not come back. The
election is recorded with the reason unclean.`,
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
	f.StringVar(&o.req.To, "to", "", "the `NODE` that is to lead")
	f.BoolVar(&o.req.Unclean, "unclean", false, "let a replica lead that is not in sync: what it lacks is lost")
	o.sure.addYes(cmd)
}

func (o *electOptions) validate() error {
	if o.req.Unclean && o.req.To == "" {
		return usageError("--unclean needs --to: name the node whose copy is to be the truth")
	}
	return nil
}

func electLeader(cmd *cobra.Command, g *globals, o electOptions, at target) error {
	if o.req.Unclean && !o.sure.yes {
		d, err := query(cmd.Context(), g, at.describe(g))
		if err != nil {
			return about(err, at.topic, "")
		}
		warning := fmt.Sprintf("electing %s to lead %s cannot be undone: %s", o.req.To, at, lostBy(d, o.req.To))
		if err := o.sure.askAfter(cmd, g, warning, at.String()); err != nil {
			return err
		}
	}
	d, err := query(cmd.Context(), g, func(ctx context.Context) (*api.PartitionDetail, error) {
		return g.client.ElectLeader(ctx, at.topic, at.partition, o.req)
	})
	if err != nil {
		return about(err, at.topic, "")
	}
	return g.show(cmd, partitionView(d))
}
