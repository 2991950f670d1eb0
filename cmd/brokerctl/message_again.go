package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newMessageRequeueCommand(g *globals) *cobra.Command {
	var o oneMessage
	cmd := &cobra.Command{
		Use:   "requeue ID",
		Short: "Redeliver one message to one channel",
		Long: `Send one message, by its id or its position PARTITION/SEQ, to one channel again, whatever its state
there. It is published at the end of its partition for this channel only.`,
		Example: `  brokerctl message requeue 2b839aa76e4d64b7 --topic orders --channel invoice`,
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return publishAgain(cmd, g, &o, args[0], func(ctx context.Context, id string) (*api.Published, error) {
				return g.client.History.RequeueMessage(ctx, o.topic, o.channel, id)
			})
		},
	}
	o.addFlags(cmd, "`CHANNEL` to redeliver it to")
	_ = cmd.MarkFlagRequired("channel") // the flag exists
	return cmd
}

func newMessageCopyCommand(g *globals) *cobra.Command {
	var o oneMessage
	var to string
	cmd := &cobra.Command{
		Use:     "copy ID",
		Short:   "Publish one message to another topic",
		Long:    `Publish one message, named by its id or its position PARTITION/SEQ, to another existing topic. The original stays.`,
		Example: `  brokerctl message copy 2b839aa76e4d64b7 --topic orders --to orders-test`,
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return publishAgain(cmd, g, &o, args[0], func(ctx context.Context, id string) (*api.Published, error) {
				return g.client.History.CopyMessage(ctx, o.topic, id, to)
			})
		},
	}
	o.addTopic(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`TOPIC` to publish it to")
	_ = cmd.MarkFlagRequired("to") // it is there
	return cmd
}

// publishAgain has a stored message published, and shows its new id.
func publishAgain(cmd *cobra.Command, g *globals, o *oneMessage, text string, do func(context.Context, string) (*api.Published, error)) error {
	id, err := o.find(cmd.Context(), g, text)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.Published, error) { return do(ctx, id) }
	return answer(cmd, g, ask, func(done *api.Published) view {
		return view{object: done, names: done.IDs, text: func(p *page) {
			to := done.Topic
			if o.channel != "" {
				to += "/" + o.channel
			}
			if !g.quiet {
				p.line("message %s published to %s as %s", id, to, done.IDs[0])
			}
		}}
	})
}
