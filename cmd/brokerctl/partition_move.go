package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

type moveOptions struct {
	replicas []string
	cancel   bool
	wait     bool
	dryRun   bool
}

func newPartitionMoveCommand(g *globals) *cobra.Command {
	var o moveOptions
	cmd := acting(g, &cobra.Command{
		Use:   "move TOPIC/PARTITION --replicas NODE,NODE,...",
		Short: "Move the replicas of a partition to other nodes",
		Long: `Move the replicas of a partition to the given nodes, the preferred leader first. Listing the same nodes
in a different order only changes the preferred leader; the number of replicas may change. New replicas
are copied while the partition keeps serving, and old ones are deleted once the new ones are in sync.`,
		Example: `  brokerctl partition move orders/0 --replicas n1,n2,n4 --wait
  brokerctl partition move orders/0 --cancel`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(); err != nil {
			return err
		}
		return movePartition(cmd, g, o, at)
	})
	f := cmd.Flags()
	f.StringSliceVar(&o.replicas, "replicas", nil, "target `NODES`, the preferred leader first")
	f.BoolVar(&o.cancel, "cancel", false, "cancel a move and restore the previous replicas")
	f.BoolVar(&o.wait, "wait", false, "wait until the replicas are in place")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would happen without changing anything")
	return cmd
}

func (o *moveOptions) validate() error {
	if o.cancel == (len(o.replicas) > 0) {
		return usageError("give --replicas or --cancel")
	}
	if o.dryRun && (o.cancel || o.wait) {
		return usageError("--dry-run applies to --replicas, without --wait")
	}
	return nil
}

func movePartition(cmd *cobra.Command, g *globals, o moveOptions, at target) error {
	was, err := query(cmd.Context(), g, at.describe(g))
	if err != nil {
		return err
	}
	start := func(ctx context.Context) (*api.PartitionDetail, error) {
		return g.client.CancelMove(ctx, at.topic, at.partition)
	}
	if !o.cancel {
		warning := fmt.Sprintf("moving %s from %s to %s copies up to %s to each new node, then deletes it from each old one",
			at, list(was.Replicas), list(o.replicas), words.Size(was.Bytes))
		start = func(ctx context.Context) (*api.PartitionDetail, error) {
			return g.client.MovePartition(ctx, at.topic, at.partition, api.MovePartition{Replicas: o.replicas, DryRun: o.dryRun})
		}
		if o.dryRun {
			return showDryRun(cmd, g, start, warning, at.String())
		}
		if err := confirmAfter(cmd, g, warning, at.String()); err != nil {
			return err
		}
	}
	d, err := query(cmd.Context(), g, start)
	if err == nil && o.wait {
		d, err = waitFor(cmd, g, at.describe(g), moved)
	}
	if err != nil {
		return err
	}
	return g.show(cmd, partitionView(d))
}

// showDryRun asks the broker whether a change is possible, and shows what it would do. The name is
// that of the object.
func showDryRun[T any](cmd *cobra.Command, g *globals, check func(context.Context) (*T, error), what, name string) error {
	d, err := query(cmd.Context(), g, check)
	if err != nil {
		return err
	}
	return g.show(cmd, output.View{Object: d, Names: []string{name}, Text: func(p *output.Page) { p.Line("dry run: %s", what) }})
}

// moved reports whether a partition's move is complete.
func moved(d *api.PartitionDetail) (text string, done bool) {
	text = fmt.Sprintf("%s: adding %s, removing %s", partitionName(d.Partition), list(d.Adding), list(d.Removing))
	text += prefixed(", ", progress(d.Left))
	if len(d.Troubles) > 0 {
		text += ", stuck: " + d.Troubles[0].What
	}
	return text, len(d.Adding)+len(d.Removing) == 0
}
