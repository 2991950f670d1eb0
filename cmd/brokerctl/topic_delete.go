package main

import (
	"context"

	"github.com/spf13/cobra"
)

// deletion defines which topic is deleted, and whether for good.
type deletion struct {
	purge       bool
	incarnation uint64
	sure        confirmation
}

func newTopicDeleteCommand(g *globals) *cobra.Command {
	var d deletion
	cmd := acting(g, &cobra.Command{
		Use:     "delete TOPIC",
		Aliases: []string{"rm"},
		Short:   "Delete a topic, its messages and its channels",
		Long: `Delete a topic, its messages and its channels. For 24 hours, or the topic's --retention-trash, it can be
restored with topic restore; until then its messages occupy disk space. --purge deletes it for good at once,
with --incarnation a topic in the trash.`,
	}, func(cmd *cobra.Command, at target) error { return d.run(cmd, g, at) })
	f := cmd.Flags()
	f.BoolVar(&d.purge, "purge", false, "delete for good; cannot be undone")
	f.Uint64Var(&d.incarnation, "incarnation", 0, "with --purge: delete the topic of this incarnation, which may already be in the trash")
	d.sure.addYes(cmd)
	return cmd
}

func (d *deletion) run(cmd *cobra.Command, g *globals, at target) error {
	name := at.topic
	if d.incarnation != 0 && !d.purge {
		return usageError("--incarnation requires --purge")
	}
	warning, action := "deleting topic "+name+" can be undone for a time only (brokerctl topic restore "+name+")", "deleted"
	if d.purge {
		warning, action = "deleting topic "+name+" for good cannot be undone", "purged"
	}
	if err := d.sure.askAfter(cmd, g, warning, name); err != nil {
		return err
	}
	return g.change(cmd, at, action, func(ctx context.Context) error {
		if d.purge {
			return g.client.Trash.Purge(ctx, name, d.incarnation)
		}
		return g.client.DeleteTopic(ctx, name)
	})
}
