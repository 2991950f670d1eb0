package stats

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Merge adds up the statistics of several nodes on topics of which they lead
// partitions, sorted by name. If two nodes claim to lead a partition, the later
// epoch counts.
func Merge(byNode map[meta.NodeID][]Topic) []Topic {
	merged := map[string]*Topic{}
	for _, id := range slices.Sorted(maps.Keys(byNode)) {
		for _, t := range byNode[id] {
			led := slices.DeleteFunc(slices.Clone(t.Partitions), func(p Partition) bool { return p.Leader != string(id) })
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
	out := make([]Topic, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		t := merged[name]
		t.sort()
		out = append(out, *t)
	}
	return out
}

// NameMissing adds to topics the names of leaders without statistics: they have not answered, or
// do not lead yet. A topic without statistics of any leader is added, without counts. The result
// is sorted by name, like stats.
func NameMissing(stats []Topic, topics []*meta.Topic) []Topic {
	for _, t := range topics {
		i, found := slices.BinarySearchFunc(stats, t.Name, func(s Topic, name string) int { return strings.Compare(s.Name, name) })
		told := map[int]bool{}
		if found {
			for _, p := range stats[i].Partitions {
				told[p.Partition] = true
			}
		}
		var missing []string
		for k := range t.Partitions {
			if leader := string(t.Partitions[k].Leader); !told[k] && leader != "" && !slices.Contains(missing, leader) {
				missing = append(missing, leader)
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing)
		if !found {
			stats = slices.Insert(stats, i, Topic{Name: t.Name, Paused: t.Paused})
		}
		stats[i].MissingNodes = missing
	}
	return stats
}

// merge adds another node's statistics of the topic.
func (t *Topic) merge(u *Topic) {
	t.Paused = t.Paused || u.Paused
	t.Depth += u.Depth
	t.Messages += u.Messages
	t.Bytes += u.Bytes
	t.Refused += u.Refused
	if t.FullSince.IsZero() || !u.FullSince.IsZero() && u.FullSince.Before(t.FullSince) {
		t.FullSince = u.FullSince
	}
	t.RefusedSize = max(t.RefusedSize, u.RefusedSize)
	t.Dropped += u.Dropped
	t.QuotaUsed = max(t.QuotaUsed, u.QuotaUsed)
	t.Dedup = t.Dedup.Plus(u.Dedup)
	for _, p := range u.Partitions {
		i := slices.IndexFunc(t.Partitions, func(q Partition) bool { return q.Partition == p.Partition })
		switch {
		case i < 0:
			t.Partitions = append(t.Partitions, p)
		case p.Epoch > t.Partitions[i].Epoch:
			t.Partitions[i] = p
		}
	}
	for _, c := range u.Channels {
		i := slices.IndexFunc(t.Channels, func(d Channel) bool { return d.Name == c.Name })
		if i < 0 {
			t.Channels = append(t.Channels, c)
			continue
		}
		t.Channels[i].Add(&c)
	}
}

// sort sorts merged statistics.
func (t *Topic) sort() {
	slices.SortFunc(t.Partitions, func(a, b Partition) int { return cmp.Compare(a.Partition, b.Partition) })
	slices.SortFunc(t.Channels, func(a, b Channel) int { return strings.Compare(a.Name, b.Name) })
	t.LogBytes = 0
	for _, p := range t.Partitions {
		t.LogBytes += p.Bytes
	}
	for i := range t.Channels {
		c := &t.Channels[i]
		slices.SortFunc(c.Partitions, func(a, b api.ChannelPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		if c.Clients != nil {
			c.Clients = mergeClients(c.Clients)
			c.Consumers = len(c.Clients)
		}
	}
}

// Add adds the statistics of the channel on another node or partition.
func (c *Channel) Add(d *Channel) {
	c.Paused = c.Paused || d.Paused
	c.Order = cmp.Or(c.Order, d.Order)
	c.ChannelCounts.Add(&d.ChannelCounts)
	c.Throttled += d.Throttled
	c.OldestAge = max(c.OldestAge, d.OldestAge)
	c.Latency = latency.Merged(c.Latency, d.Latency)
	c.Rates.Add(d.Rates)
	if d.LeftAt.After(c.LeftAt) {
		c.LastConsumer, c.LeftAt = d.LastConsumer, d.LeftAt
	}
	c.Consumers += d.Consumers
	c.Ready += d.Ready
	c.Partitions = append(slices.Clone(c.Partitions), d.Partitions...)
	if d.Clients != nil {
		c.Clients = append(slices.Clone(c.Clients), d.Clients...)
	}
}

// mergeClients merges the entries of a connection that its node relays to
// several leaders: each of them lists it under its address.
func mergeClients(all []Client) []Client {
	type key struct{ address, id string }
	at := map[key]int{}
	out := make([]Client, 0, len(all))
	for _, c := range all {
		k := key{c.Address, c.ClientID}
		i, seen := at[k]
		if !seen {
			at[k] = len(out)
			out = append(out, c)
			continue
		}
		o := &out[i]
		o.Ready = max(o.Ready, c.Ready)
		if o.Oldest == nil || c.Oldest != nil && c.Oldest.Since.Before(o.Oldest.Since) {
			o.Oldest = c.Oldest
		}
		o.InFlight += c.InFlight
		o.DeliveredTotal += c.DeliveredTotal
		o.FinishedTotal += c.FinishedTotal
		o.RequeuedTotal += c.RequeuedTotal
		o.TimedOutTotal += c.TimedOutTotal
	}
	return out
}
