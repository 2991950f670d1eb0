package broker

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// statsArgs asks a node for TopicStats.
type statsArgs struct {
	Topic   string `json:"topic,omitempty"` // "": all
	Channel string `json:"channel,omitempty"`
	Clients bool   `json:"clients,omitempty"`
}

var askStats = question[statsArgs, []stats.Topic]{"stats", func(o *desk, _ context.Context, a statsArgs) ([]stats.Topic, error) {
	return o.d.TopicStats(a.Topic, a.Channel, a.Clients), nil
}}

// ClusterStats is TopicStats over all partitions, wherever they are led. What a
// node has that does not answer is missing in the sums, and the node is named.
func (o *contents) ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	var topics []*meta.Topic
	if topicFilter == "" {
		topics = o.d.Topics()
	} else if t, err := o.d.Topic(topicFilter); err == nil {
		topics = []*meta.Topic{t}
	}
	nodes := o.leadersOf(topics)
	// Consumers that are counted at several leaders are told apart by what is
	// known of them, so one topic's are always listed.
	args := statsArgs{topicFilter, channelFilter, clients || topicFilter != ""}
	if len(nodes) == 0 || len(nodes) == 1 && nodes[0] == o.self() {
		return o.d.TopicStats(topicFilter, channelFilter, clients)
	}
	answers := askAll(ctx, &o.desk, askStats, nodes, func(meta.NodeID) statsArgs { return args })
	merged := stats.NameMissing(stats.Merge(answers), topics, answers)
	if !clients {
		for i := range merged {
			for k := range merged[i].Channels {
				merged[i].Channels[k].Clients = nil
			}
		}
	}
	return merged
}
