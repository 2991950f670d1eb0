package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type channelCreateOptions struct {
	ordered bool
	order   string
	policy  policyOptions
	from    string
	filter  string
}

func newChannelCreateCommand(g *globals) *cobra.Command {
	var o channelCreateOptions
	cmd := acting(g, &cobra.Command{
		Use:   "create TOPIC/CHANNEL",
		Short: "Create a channel",
		Long: `Create a channel. The first channel of a topic receives all retained messages, later
ones those published from then on, unless --from names another position. Creating an existing channel does nothing.
A channel of an ordered topic has --order strict, unless key is given; none is refused.`,
	}, func(cmd *cobra.Command, at target) error {
		req := api.CreateChannel{Name: at.channel, Ordered: o.ordered, Filter: o.filter}
		order, err := orderOf(cmd, o.order)
		if err != nil {
			return err
		}
		if order != nil {
			if req.Order = *order; o.ordered && req.Order != "strict" {
				return usageError("--ordered is --order strict, not --order %s: give one of them", req.Order)
			}
		}
		if req.Policy, err = o.policy.patch(cmd.Flags()); err != nil {
			return err
		}
		if o.from != "" {
			from, err := parseSeek("--from", o.from, g.env.now())
			if err != nil {
				return err
			}
			req.From = &from
		}
		err = answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
			return g.client.CreateChannel(ctx, at.topic, req)
		}, channelView)
		return about(err, at.topic, "")
	})
	cmd.ValidArgsFunction = topicForm.complete(g) // the channel does not exist yet
	o.addFlags(cmd)
	return cmd
}

func (o *channelCreateOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.ordered, "ordered", false, "deliver the messages of a partition one at a time, in order; the same as --order strict")
	orderVar(cmd, &o.order)
	o.policy.addFlags(cmd.Flags(), "")
	cmd.Flags().StringVar(&o.filter, "filter", "", "deliver only the messages that `EXPR` chooses"+filterExample)
	cmd.Flags().StringVar(&o.from, "from", "", "`POSITION` at which a new channel begins: start, end, a time, an age such as -2h, or an offset")
}
