package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/meta"
)

// statsArgs asks a node for TopicStats.
type statsArgs struct {
	Topic   string `json:"topic,omitempty"` // "": all
	Channel string `json:"channel,omitempty"`
	Clients bool   `json:"clients,omitempty"`
}

var askStats = question[statsArgs, []TopicStats]{"stats", func(o *desk, _ context.Context, a statsArgs) ([]TopicStats, error) {
	return o.d.TopicStats(a.Topic, a.Channel, a.Clients), nil
}}

// ClusterStats is TopicStats over all partitions, wherever they are led. What a
// node has that does not answer is missing in the sums, and the node is named.
func (o *contents) ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []TopicStats {
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
	merged := nameMissing(mergeStats(answers), topics, answers)
	if !clients {
		for i := range merged {
			for k := range merged[i].Channels {
				merged[i].Channels[k].Clients = nil
			}
		}
	}
	return merged
}

// mergeStats adds up what several nodes say of the topics that they lead
// partitions of, sorted by name. Of a partition that two say they lead, the
// later epoch counts.
func mergeStats(byNode map[meta.NodeID][]TopicStats) []TopicStats {
	merged := map[string]*TopicStats{}
	for _, id := range slices.Sorted(maps.Keys(byNode)) {
		for _, t := range byNode[id] {
			led := slices.DeleteFunc(slices.Clone(t.Partitions), func(p PartitionStats) bool { return p.Leader != string(id) })
			if len(led) == 0 {
				continue
			}
			t.Partitions = led
			if merged[t.Name] == nil {
				t.Channels = slices.Clone(t.Channels)
				merged[t.Name] = &t
				continue
			}
			merged[t.Name].merge(&t)
		}
	}
	out := make([]TopicStats, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		t := merged[name]
		t.settle()
		out = append(out, *t)
	}
	return out
}

// nameMissing names the leaders of topics that have not answered. A topic of which no
// leader has is added, without counts. The result is sorted by name as stats are.
func nameMissing(stats []TopicStats, topics []*meta.Topic, answers map[meta.NodeID][]TopicStats) []TopicStats {
	for _, t := range topics {
		var missing []string
		for i := range t.Partitions {
			leader := t.Partitions[i].Leader
			if _, answered := answers[leader]; !answered && leader != "" && !slices.Contains(missing, string(leader)) {
				missing = append(missing, string(leader))
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing)
		i, found := slices.BinarySearchFunc(stats, t.Name, func(s TopicStats, name string) int { return strings.Compare(s.Name, name) })
		if !found {
			stats = slices.Insert(stats, i, TopicStats{Name: t.Name, Paused: t.Paused})
		}
		stats[i].MissingNodes = missing
	}
	return stats
}

// merge adds what another node says of the topic.
func (t *TopicStats) merge(u *TopicStats) {
	t.Paused = t.Paused || u.Paused
	t.Depth += u.Depth
	t.Messages += u.Messages
	t.Bytes += u.Bytes
	for _, p := range u.Partitions {
		i := slices.IndexFunc(t.Partitions, func(q PartitionStats) bool { return q.Partition == p.Partition })
		switch {
		case i < 0:
			t.Partitions = append(t.Partitions, p)
		case p.Epoch > t.Partitions[i].Epoch:
			t.Partitions[i] = p
		}
	}
	for _, c := range u.Channels {
		i := slices.IndexFunc(t.Channels, func(d ChannelStats) bool { return d.Name == c.Name })
		if i < 0 {
			t.Channels = append(t.Channels, c)
			continue
		}
		t.Channels[i].merge(&c)
	}
}

// settle puts merged stats in order.
func (t *TopicStats) settle() {
	slices.SortFunc(t.Partitions, func(a, b PartitionStats) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(t.Channels, func(a, b ChannelStats) int { return strings.Compare(a.Name, b.Name) })
	t.LogBytes = 0
	for _, p := range t.Partitions {
		t.LogBytes += p.Bytes
	}
	for i := range t.Channels {
		c := &t.Channels[i]
		slices.SortFunc(c.Partitions, func(a, b ChannelPartitionStats) int { return cmp.Compare(a.Partition, b.Partition) })
		if c.Clients != nil {
			c.Clients = mergeClients(c.Clients)
			c.Consumers = len(c.Clients)
		}
	}
}

// merge adds what another node says of the channel.
func (c *ChannelStats) merge(d *ChannelStats) {
	c.Paused = c.Paused || d.Paused
	c.Ordered = c.Ordered || d.Ordered
	c.Depth += d.Depth
	c.InFlight += d.InFlight
	c.Deferred += d.Deferred
	c.Messages += d.Messages
	c.Delivered += d.Delivered
	c.Finished += d.Finished
	c.Requeued += d.Requeued
	c.TimedOut += d.TimedOut
	c.OldestAge = max(c.OldestAge, d.OldestAge)
	c.Latency = latency.Merged(c.Latency, d.Latency)
	c.Rates.Add(d.Rates)
	c.Consumers += d.Consumers
	c.Partitions = append(slices.Clone(c.Partitions), d.Partitions...)
	if d.Clients != nil {
		c.Clients = append(slices.Clone(c.Clients), d.Clients...)
	}
}

// mergeClients makes one of the entries of a connection that another node
// relays to several leaders: each of them lists it under its address.
func mergeClients(all []ClientStats) []ClientStats {
	type key struct{ address, id string }
	at := map[key]int{}
	out := make([]ClientStats, 0, len(all))
	for _, c := range all {
		k := key{c.RemoteAddress, c.ClientID}
		i, seen := at[k]
		if !seen {
			at[k] = len(out)
			out = append(out, c)
			continue
		}
		o := &out[i]
		o.Ready = max(o.Ready, c.Ready)
		o.InFlight += c.InFlight
		o.Delivered += c.Delivered
		o.Finished += c.Finished
		o.Requeued += c.Requeued
		o.TimedOut += c.TimedOut
	}
	return out
}
