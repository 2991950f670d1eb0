package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC",
		Aliases: []string{"info"},
		Short:   "Show a topic, its partitions and its channels",
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, at.topic) }, topicDetails)
	})
}

// topicDetails shows a topic with its partitions and channels.
func topicDetails(t *api.Topic) view {
	return view{object: t, names: []string{t.Name}, text: func(p *page) {
		topicTable(p, *t)
		p.line("")
		partitionTable(p, t.Partitions)
		if len(t.Channels) > 0 {
			p.line("")
			channelTable(p, t.Channels)
		}
		p.missing(t.MissingNodes)
	}}
}

// partitionTable shows the partitions of one topic.
func partitionTable(p *page, partitions []api.Partition) {
	t := newTable("P", "LEADER", "REPLICAS", "ISR", "EPOCH", "FIRST", "COMMITTED", "END", "SIZE")
	for _, q := range partitions {
		t.row(q.Partition, leader(q), list(q.Replicas), list(q.ISR), q.Epoch,
			count(q.LogStart), count(q.CommittedEnd), count(q.LogEnd), words.Size(q.Bytes))
	}
	p.table(t)
}

// leader marks the preferred leader with a star.
func leader(q api.Partition) string {
	switch {
	case q.Leader == "":
		return "none"
	case len(q.Replicas) > 1 && q.Replicas[0] == q.Leader:
		return q.Leader + "*"
	}
	return q.Leader
}
