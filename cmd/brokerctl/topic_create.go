package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

type topicCreateOptions struct {
	config     configOptions
	partitions int
	replicas   int
	ordered    bool
	ext        bool
}

func newTopicCreateCommand(g *globals) *cobra.Command {
	var o topicCreateOptions
	cmd := acting(g, &cobra.Command{
		Use:   "create TOPIC",
		Short: "Create a topic",
		Long: `Create a topic. Omitted settings have the cluster's defaults. Creating an
existing topic with the same configuration does nothing.`,
		Example: `  brokerctl topic create orders
  brokerctl topic create clicks --partitions 4 --sync interval --retention 72h --retention-bytes 50GiB`,
	}, func(cmd *cobra.Command, at target) error {
		req, err := o.request(cmd, at.topic)
		if err != nil {
			return err
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.CreateTopic(ctx, req) }, topicView)
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	o.addFlags(cmd)
	return cmd
}

func (o *topicCreateOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&o.partitions, "partitions", "p", 1, "number of partitions")
	f.IntVarP(&o.replicas, "replicas", "r", 0, "replicas per partition (default 3, or the number of nodes if fewer)")
	f.BoolVar(&o.ordered, "ordered", false, "deliver each channel in order: strict, or of each key (--order key)")
	f.BoolVar(&o.ext, "ext", false, "allow messages with a JSON header")
	o.config.addFlags(f)
}

func (o *topicCreateOptions) request(cmd *cobra.Command, name string) (api.CreateTopic, error) {
	f := cmd.Flags()
	patch, err := o.config.patch(f)
	setIf(f, "partitions", &patch.Partitions, o.partitions)
	setIf(f, "replicas", &patch.Replicas, o.replicas)
	setIf(f, "ordered", &patch.Ordered, o.ordered)
	setIf(f, "ext", &patch.Ext, o.ext)
	return api.CreateTopic{Name: name, Config: patch}, err
}
