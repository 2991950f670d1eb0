package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicAlterCommand(g *globals) *cobra.Command {
	var o configOptions
	var replicas int
	var wait bool
	cmd := acting(g, &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change settings of a topic",
		Long: `Change the given settings and keep the others. A change of --replicas adds or removes replicas of a few
partitions at a time; repeat the command for the rest, or use --wait to continue until all are done.`,
		Example: `  brokerctl topic alter orders --retention 168h
  brokerctl topic alter orders --replicas 3 --wait`,
	}, func(cmd *cobra.Command, at target) error {
		patch, err := o.patch(cmd.Flags())
		if err != nil {
			return err
		}
		setIf(cmd.Flags(), "replicas", &patch.Replicas, replicas)
		if patch == (api.ConfigPatch{}) {
			return usageError("nothing to change: see %s --help for the settings", cmd.CommandPath())
		}
		if wait && patch.Replicas == nil {
			return usageError("--wait requires --replicas: other changes take effect at once")
		}
		return alterTopic(cmd, g, at.topic, patch, wait)
	})
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		failed := usageError("%w", err)
		if e, ok := errors.AsType[*pflag.NotExistError](err); ok && (e.GetSpecifiedName() == "partitions" || e.GetSpecifiedName() == "p") {
			failed.answer.Hint = "partitions are added by brokerctl topic add-partitions TOPIC N; none is ever removed"
		}
		return failed
	})
	o.addFlags(cmd.Flags())
	cmd.Flags().IntVarP(&replicas, "replicas", "r", 0, "replicas per partition")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every partition has that many replicas")
	return cmd
}

func alterTopic(cmd *cobra.Command, g *globals, name string, patch api.ConfigPatch, wait bool) error {
	alter := func(ctx context.Context) (*api.Topic, error) { return g.client.AlterTopic(ctx, name, patch) }
	t, err := query(cmd.Context(), g, alter)
	if err == nil && wait {
		t, err = waitFor(cmd, g, alter, replicated)
	}
	if err != nil {
		return err
	}
	return g.show(cmd, topicView(t))
}

// replicated reports whether every partition has the required number of replicas.
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
	return fmt.Sprintf("%s moving, %d waiting", plural(moving, "partition"), waiting), moving+waiting == 0
}
