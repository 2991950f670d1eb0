package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicAlterCommand(g *globals) *cobra.Command {
	var o configOptions
	var replicas int
	var wait bool
	cmd := acting(g, &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change settings of a topic",
		Long: `Change the settings that are given, and leave the others as they are. With other --replicas, copies are
made on further nodes, or go, a few partitions at a time; repeated, it goes on with the rest, and with
--wait it repeats itself until all have as many.`,
		Example: `  brokerctl topic alter orders --retention 168h
  brokerctl topic alter orders --replicas 3 --wait`,
	}, func(cmd *cobra.Command, at target) error {
		patch, err := o.patch(cmd.Flags())
		if err != nil {
			return err
		}
		setIf(cmd.Flags(), "replicas", &patch.Replicas, replicas)
		if patch == (api.ConfigPatch{}) {
			return usageError("say what to change: %s --help lists the settings", cmd.CommandPath())
		}
		if wait && patch.Replicas == nil {
			return usageError("--wait goes with --replicas: everything else is done at once")
		}
		return alterTopic(cmd, g, at.topic, patch, wait)
	})
	o.addFlags(cmd.Flags())
	cmd.Flags().IntVarP(&replicas, "replicas", "r", 0, "how many copies of each partition")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when every partition has as many copies")
	return cmd
}

func alterTopic(cmd *cobra.Command, g *globals, name string, patch api.ConfigPatch, wait bool) error {
	alter := func(ctx context.Context) (*api.Topic, error) { return g.client.AlterTopic(ctx, name, patch) }
	t, err := query(cmd.Context(), g, alter)
	if err == nil && wait {
		t, err = waitFor(cmd, g, alter, replicated)
	}
	if err != nil {
		return about(err, name, "")
	}
	return g.show(cmd, topicView(t))
}

// replicated says whether every partition has as many replicas as it is to have.
func replicated(t *api.Topic) (text string, done bool) {
	moving, waiting := 0, 0
	for _, q := range t.Partitions {
		switch {
		case len(q.Adding)+len(q.Removing) > 0:
			moving++
		case len(q.Replicas) != t.Config.Replicas:
			waiting++
		}
	}
	return fmt.Sprintf("%s on the move, %d wait", plural(moving, "partition"), waiting), moving+waiting == 0
}
