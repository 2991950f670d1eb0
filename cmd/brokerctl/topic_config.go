package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

type topicCreateOptions struct {
	config     configOptions
	partitions int
	replicas   int
	ordered    bool
	ext        bool
	dryRun     bool
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
		show := topicView
		if req.DryRun = o.dryRun; o.dryRun {
			show = func(t *api.Topic) output.View {
				return topicDetails(t).Then(func(p *output.Page) { p.Line("dry run: messages of up to %s", units.Size(t.MessageLimit)) })
			}
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.CreateTopic(ctx, req) }, show)
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	f := cmd.Flags()
	f.IntVarP(&o.partitions, "partitions", "p", 1, "number of partitions")
	f.IntVarP(&o.replicas, "replicas", "r", 0, "replicas per partition (default 3, or the number of nodes if fewer)")
	f.BoolVar(&o.ordered, "ordered", false, "deliver each channel in order: strict, or of each key (--order key)")
	f.BoolVar(&o.ext, "ext", false, "allow messages with a JSON header")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the topic that would be created, and where its replicas would be")
	o.config.addFlags(f)
	return cmd
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

func newTopicAlterCommand(g *globals) *cobra.Command {
	var o configOptions
	var replicas int
	var wait, dry bool
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
		if dry {
			try := func(ctx context.Context) (*api.Topic, error) {
				return g.client.Insights.TryAlterTopic(ctx, at.topic, patch)
			}
			return answer(cmd, g, try, func(t *api.Topic) output.View { return withDryRun(topicView(t), true) })
		}
		return alterTopic(cmd, g, at.topic, patch, wait)
	})
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		failed := usageError("%w", err)
		if e, ok := errors.AsType[*pflag.NotExistError](err); ok && (e.GetSpecifiedName() == "partitions" || e.GetSpecifiedName() == "p") {
			failed.answer.Hint = "partitions are added by brokerctl topic add-partitions TOPIC --partitions N; none is ever removed"
		}
		return failed
	})
	o.addFlags(cmd.Flags())
	cmd.Flags().IntVarP(&replicas, "replicas", "r", 0, "replicas per partition")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every partition has that many replicas")
	planVar(cmd, &dry)
	cmd.MarkFlagsMutuallyExclusive("wait", "dry-run")
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

func newTopicAddPartitionsCommand(g *globals) *cobra.Command {
	var total int
	var dry bool
	cmd := acting(g, &cobra.Command{
		Use:   "add-partitions TOPIC --partitions N",
		Short: "Add partitions to a topic",
		Long: `Raise the number of partitions of a topic to N. It cannot be lowered again, and keys move to other
partitions. A topic with --ordered and several partitions refuses messages that name neither a key nor
a partition: set --key-from first if its publishers name none.`,
		Example: `  brokerctl topic add-partitions orders --partitions 8`,
	}, func(cmd *cobra.Command, at target) error {
		if total < 1 {
			return usageError("--partitions must be set to the total number of partitions")
		}
		add := g.client.AddPartitions
		if dry {
			add = g.client.Insights.TryAddPartitions
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return add(ctx, at.topic, total) }, func(t *api.Topic) output.View { return withDryRun(topicView(t), dry) })
	})
	cmd.Flags().IntVarP(&total, "partitions", "p", 0, "total number of partitions")
	planVar(cmd, &dry)
	return cmd
}
