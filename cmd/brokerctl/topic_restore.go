package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicRestoreCommand(g *globals) *cobra.Command {
	var which api.RestoreTopic
	var replace bool
	cmd := acting(g, &cobra.Command{
		Use:   "restore TOPIC",
		Short: "Restore a deleted topic with its messages and channels",
		Long: `Restore a deleted topic with its messages, its channels and their positions. A deleted topic is kept
for 24 hours (--retention-trash), unless a disk is nearly full. topic list --deleted lists the topics that can
be restored. If publishers have created a topic with the name since, --replace with the --incarnation of the topic
to restore deletes the new topic in the same step; it can be restored likewise.`,
		Example: `  brokerctl topic list --deleted -o wide
  brokerctl topic restore orders
  brokerctl topic restore orders --incarnation 12 --replace`,
	}, func(cmd *cobra.Command, at target) error {
		if replace && which.Incarnation == 0 {
			return usageError("--replace needs --incarnation: topic list --deleted -o wide shows it")
		}
		if replace { // only this one, and not one created meanwhile
			var err error
			if which.Replaces, err = query(cmd.Context(), g, func(ctx context.Context) (uint64, error) { return g.client.Trash.Holder(ctx, at.topic) }); err != nil {
				return err
			}
		}
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Trash.Restore(ctx, at.topic, which) }, topicView)
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().Uint64Var(&which.Incarnation, "incarnation", 0, "restore this one of several deleted topics with the same name")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the topic that has the name now; requires --incarnation")
	return cmd
}

func deletedView(all []api.DeletedTopic) view {
	t := newTable("NAME", "DELETED", "KEPT UNTIL", "PARTITIONS", "REPLICAS", "CHANNELS", "+INCARNATION", "+NODES")
	return listView(api.DeletedTopics{Deleted: all}, all, func(t api.DeletedTopic) string { return t.Name }, t, func(d api.DeletedTopic) []any {
		return []any{
			d.Name, timeText(d.DeletedAt), timeText(d.KeptUntil), d.Partitions, d.Replicas, len(d.Channels),
			strconv.FormatUint(d.Incarnation, 10), strings.Join(d.Nodes, ","),
		}
	})
}
