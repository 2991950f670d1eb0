package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicAlterCommand(g *globals) *cobra.Command {
	var o configOptions
	var replicas int
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change settings of a topic",
		Long: `Change the settings that are given, and leave the others as they are. With other --replicas, copies are
made on further nodes, or go, a few partitions at a time; repeated, it goes on with the rest.`,
		Example: `  brokerctl topic alter orders --retention 168h
  brokerctl topic alter orders --replicas 3`,
		Args:              exactArgs("a TOPIC"),
		ValidArgsFunction: completeNames(g, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := o.patch(cmd.Flags())
			if err != nil {
				return err
			}
			setIf(cmd.Flags(), "replicas", &patch.Replicas, replicas)
			if patch == (api.ConfigPatch{}) {
				return usageError("say what to change: %s --help lists the settings", cmd.CommandPath())
			}
			return alterTopic(cmd, g, args[0], patch)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().IntVarP(&replicas, "replicas", "r", 0, "how many copies of each partition")
	return cmd
}

func alterTopic(cmd *cobra.Command, g *globals, name string, patch api.ConfigPatch) error {
	t, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.AlterTopic(ctx, name, patch) })
	if err != nil {
		return about(err, name, "")
	}
	return g.show(cmd, topicView(t))
}
