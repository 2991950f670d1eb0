package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type channelAlterOptions struct {
	policy policyOptions
	order  string
	filter string
	all    bool
}

func newChannelAlterCommand(g *globals) *cobra.Command {
	var o channelAlterOptions
	cmd := acting(g, &cobra.Command{
		Use:   "alter TOPIC/CHANNEL",
		Short: "Change settings of a channel",
		Long: `Change the given settings and keep the others. They take effect at once, also for messages that wait
already. The value default restores the setting of the topic or the cluster.

A filter is evaluated before each delivery of a message. A message that it does not choose is finished for the channel,
and stays finished when the filter is altered; after a seek back it is evaluated again. ` + filterLong,
		Example: `  brokerctl channel alter orders/invoice --max-attempts 5 --on-exhausted dead-letter
  brokerctl channel alter orders/invoice --backoff 1s..10m --rate 100/s
  brokerctl channel alter orders/invoice --order key
  brokerctl channel alter orders/invoice --filter 'header.type == "order" && key != ""'`,
	}, func(cmd *cobra.Command, at target) error {
		var req api.AlterChannel
		var err error
		if req.Policy, err = o.policy.patch(cmd.Flags()); err != nil {
			return err
		}
		if req.Order, err = orderOf(cmd, o.order); err != nil {
			return err
		}
		if o.all {
			req.Filter = new(string)
		}
		setIf(cmd.Flags(), "filter", &req.Filter, o.filter)
		if req == (api.AlterChannel{}) {
			return usageError("nothing to change: see %s --help for the settings", cmd.CommandPath())
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
			return g.client.AlterChannel(ctx, at.topic, at.channel, req)
		}, channelView)
	})
	o.policy.addFlags(cmd.Flags(), "")
	orderVar(cmd, &o.order)
	cmd.Flags().StringVar(&o.filter, "filter", "", "from now on, deliver only the messages that `EXPR` chooses; '' removes the filter")
	cmd.Flags().BoolVar(&o.all, "no-filter", false, "deliver all messages again; the same as --filter ''")
	cmd.MarkFlagsMutuallyExclusive("filter", "no-filter")
	return cmd
}

func orderVar(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "order", "", "`ORDER` of delivery (none, strict, key): strict delivers the messages of a partition one at a time, key those of one key")
}

// orderOf returns the requested order; nil if none.
func orderOf(cmd *cobra.Command, order string) (*string, error) {
	if !cmd.Flags().Changed("order") {
		return nil, nil
	}
	if order != "none" && order != "strict" && order != "key" {
		return nil, usageError("--order is %q, must be none, strict or key", order)
	}
	return &order, nil
}
