package main

import (
	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newTopicListCommand(g *globals) *cobra.Command {
	deleted := false
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the topics",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if deleted {
				return answer(cmd, g, g.client.Trash.Topics, deletedView)
			}
			return answer(cmd, g, g.client.Topics, topicsView)
		},
	}
	cmd.Flags().BoolVar(&deleted, "deleted", false, "list deleted topics that can be restored, most recently deleted first")
	return cmd
}

func topicsView(topics []api.Topic) view {
	missing := missingOf(topics, func(t api.Topic) []string { return t.MissingNodes })
	return view{
		object: api.TopicList{Topics: topics, MissingNodes: missing},
		lines:  listing.Lines(topics),
		names:  listing.Names(topics, func(t api.Topic) string { return t.Name }),
		text: func(p *page) {
			topicTable(p, topics...)
			p.missing(missing)
		},
	}
}
