package operate

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

var askStats = question[statsArgs, []stats.Topic]{"stats", func(o *Node, _ context.Context, a statsArgs) ([]stats.Topic, error) {
	return o.TopicStats(a.Topic, a.Channel, a.Clients), nil
}}

// ClusterStats is TopicStats over all partitions, whichever node leads them. The sums lack nodes
// that do not respond, and these nodes are named.
func (o *Contents) ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	var topics []*meta.Topic
	if topicFilter == "" {
		topics = o.node.topics.Topics()
	} else if t, err := o.node.topics.Topic(topicFilter); err == nil {
		topics = []*meta.Topic{t}
	}
	nodes := o.node.leadersOf(topics)
	// Consumers counted at several leaders are distinguished by their description, so those of one
	// topic are always listed.
	args := statsArgs{topicFilter, channelFilter, clients || topicFilter != ""}
	if len(nodes) == 0 || len(nodes) == 1 && nodes[0] == o.node.Self {
		return stats.NameMissing(o.node.TopicStats(topicFilter, channelFilter, clients), topics)
	}
	answers := askAll(ctx, o.node, askStats, nodes, func(meta.NodeID) statsArgs { return args })
	merged := stats.NameMissing(stats.Merge(answers), topics)
	if !clients {
		for i := range merged {
			for k := range merged[i].Channels {
				merged[i].Channels[k].Clients = nil
			}
		}
	}
	return merged
}

// Placement counts the cluster's partitions as known on this node, and those with a replica here.
type Placement struct {
	Partitions         int
	Offline            int // without a leader
	UnderReplicated    int // with a replica that is not in sync
	UnderMinISR        int // refusing publishes because of that
	NonPreferredLeader int
	Moving             int
	Hosted             int // with a replica here
	Led                int // with the leader here
}

// Placement returns the counts of the cluster's partitions.
func (o *Contents) Placement() Placement {
	var c Placement
	for _, t := range o.node.Meta.Topics() {
		for i := range t.Partitions {
			c.count(&t.Partitions[i], t.Config.MinISR, o.node.Self)
		}
	}
	return c
}

func (c *Placement) count(p *meta.Partition, minISR int, self meta.NodeID) {
	c.Partitions++
	for _, x := range []struct {
		is    bool
		count *int
	}{
		{p.Leader == "", &c.Offline},
		{p.UnderReplicated(), &c.UnderReplicated},
		{len(p.ISR) < minISR, &c.UnderMinISR},
		{p.Leader != "" && p.Leader != p.Replicas[0], &c.NonPreferredLeader},
		{len(p.Adding)+len(p.Removing) > 0, &c.Moving},
		{p.Leader == self, &c.Led},
	} {
		if x.is {
			*x.count++
		}
	}
	for _, r := range p.Replicas {
		if r == self {
			c.Hosted++
		}
	}
}

// NodeStats returns the statistics that an nsqd in this node's place would report: the topics
// of which this node leads partitions, and those partitions only. A topic that is requested by name and of which it
// leads none has the cluster's figures, with Elsewhere set.
//
// The sum over all nodes is therefore that of the cluster, and that of a topic over the nodes named by a lookup.
func (o *Contents) NodeStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	own := o.node.TopicStats(topicFilter, channelFilter, clients)
	if topicFilter == "" || len(own) > 0 || o.node.host.Lookup(topicFilter) == nil {
		return own
	}
	all := o.ClusterStats(ctx, topicFilter, channelFilter, clients)
	for i := range all {
		all[i].Elsewhere = true
	}
	return all
}
