package operate

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/processing"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TopicStats returns the statistics of the partitions led by this node, by topic name. The
// filters select one topic or channel; "" selects all. Without clients, the channels' client
// lists stay nil but are counted.
func (o *Node) TopicStats(topicFilter, channelFilter string, clients bool) []stats.Topic {
	all := o.host.Topics.Hosted()
	found := make([]stats.Topic, 0, len(all))
	now := time.Now()
	for _, h := range all {
		if (topicFilter == "" || topicFilter == h.Name) && len(h.AllLed()) > 0 {
			found = append(found, topicStats(h, now, channelFilter, clients))
		}
	}
	return found
}

func topicStats(h *host.Topic, now time.Time, channelFilter string, clients bool) stats.Topic {
	t := h.Config()
	s := stats.Topic{
		Name: h.Name, Ephemeral: meta.IsEphemeral(h.Name), Paused: t.Paused,
		QuotaUsed: -1,
	}
	led := configured(h.AllLed(), t)
	for _, lp := range led {
		l, i := lp.Replica.Log(), lp.Index
		s.Partitions = append(s.Partitions, stats.Partition{
			Partition: i, Leader: string(t.Partitions[i].Leader), Epoch: t.Partitions[i].Epoch,
			LogStart: l.Start(), CommittedEnd: l.CommittedEnd(), LogEnd: l.End(), Bytes: l.Bytes(),
		})
		s.LogBytes += l.Bytes()
		if most := t.Config.Quota(); most > 0 {
			s.QuotaUsed = max(s.QuotaUsed, float64(l.Bytes())/float64(most))
		}
		n := lp.Part.Counts()
		s.Messages += n.Messages
		s.Bytes += n.Bytes
		s.Depth += n.Pending
		if k := lp.Once.Keeper(); k != nil {
			s.Dedup = s.Dedup.Plus(k.Counts())
		}
	}
	n := h.Disk.Counts()
	s.Refused, s.Dropped, s.FullSince, s.RefusedSize = n.Refused, n.Dropped, h.Disk.FullSince(now), h.Disk.RefusedSize(now)
	for _, name := range channelNames(led) {
		if channelFilter == "" || channelFilter == name {
			c := channelStats(led, now, name, t, clients)
			c.Throttled = h.Rates.Throttled(name)
			s.Channels = append(s.Channels, c)
		}
	}
	return s
}

// configured returns the partitions that the topic's configuration lists. One that is being added
// has a leader before.
func configured(led []*host.Led, t *meta.Topic) []*host.Led {
	return slices.DeleteFunc(slices.Clone(led), func(lp *host.Led) bool { return lp.Index >= len(t.Partitions) })
}

func texts(ids []meta.NodeID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}

// channelNames returns the sorted names of the channels of partitions.
func channelNames(led []*host.Led) []string {
	names := map[string]struct{}{}
	for _, lp := range led {
		for _, c := range lp.Part.Channels() {
			names[c.Name()] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// channelStats describes a channel over the given partitions of t.
func channelStats(led []*host.Led, now time.Time, name string, t *meta.Topic, clients bool) stats.Channel {
	s := stats.Channel{Name: name, Ephemeral: meta.IsEphemeral(name)}
	if c := t.Channels[name]; c != nil {
		s.Order = c.Order
	}
	seen := map[counted]int{} // its index in Clients
	for _, lp := range led {
		c := lp.Part.Channel(name)
		if c == nil {
			continue
		}
		n := c.Stats()
		filtered := c.Selection.Counts()
		one := stats.Channel{
			ChannelCounts: api.ChannelCounts{
				Depth: n.Depth, InFlight: n.InFlight, Deferred: n.Deferred, MessagesTotal: n.Messages, DeliveredTotal: n.Delivered,
				FinishedTotal: n.Finished, RequeuedTotal: n.Requeued, TimedOutTotal: n.TimedOut, ExpiredTotal: n.ExpiredTotal,
				FilteredTotal: filtered.Left, FilterErrorsTotal: filtered.Failed, FilterBroken: c.Selection.Broken() != nil,
				Exhausted: n.Exhausted, Expired: n.Expired, BackingOff: n.BackingOff, RateLimited: n.Limited,
				BackedOffTotal: n.BackedOff, DeadLetteredTotal: c.Failed.DeadLettered(), DroppedTotal: c.Failed.Dropped(),
			},
			Paused: n.Paused, LastConsumer: n.LastConsumer, LeftAt: n.LeftAt.UTC(), Latency: n.Latency, Rates: c.Flow.Rates(now, n.Totals()),
			Partitions: []api.ChannelPartition{placeIn(lp, string(t.Partitions[lp.Index].Leader), &n, c.Spins.At(now))},
		}
		if at, ok := lp.Part.OldestAt(c); ok {
			one.OldestAge = now.Sub(at)
		}
		s.Add(&one)
		for _, k := range c.Consumers() {
			sub := k.Owner().(counted)
			if _, known := seen[sub]; !known {
				seen[sub] = len(s.Clients)
				s.Consumers++
				of := sub.Stats()
				s.Ready += of.Ready
				if clients {
					s.Clients = append(s.Clients, of)
				}
			}
			if clients {
				holds(&s.Clients[seen[sub]], lp.Index, now, k)
			}
		}
	}
	if clients && s.Clients == nil {
		s.Clients = []stats.Client{}
	}
	return s
}

// holds notes the message in flight that a client has had longest, if it is one of a partition.
func holds(c *stats.Client, partition int, now time.Time, k *topic.Consumer) {
	o, held, some := k.Held()
	if since := now.Add(-held); some && (c.Oldest == nil || since.Before(c.Oldest.Since)) {
		c.Oldest = &api.HeldMessage{Partition: partition, Seq: uint64(o), Since: since.UTC()}
	}
}

// placeIn returns a channel's place in a partition that this node leads.
func placeIn(lp *host.Led, leader string, n *topic.ChannelStats, spins []processing.Spin) api.ChannelPartition {
	place := api.ChannelPartition{
		Partition: lp.Index, Leader: leader,
		Confirmed: uint64(n.Floor), Lag: int64(lp.Part.Log().CommittedEnd()) - int64(n.Floor),
	}
	if n.Blocked != nil {
		place.Blocked = new(uint64(*n.Blocked))
	}
	if b := n.KeyBlock; b != nil {
		place.KeyBlocked = &api.KeyBlock{
			Key: b.Key, Seq: uint64(b.Offset), State: b.State.String(), Waiting: b.Waiting, Tracked: b.Tracked, Full: b.Full,
		}
		if !utf8.ValidString(b.Key) {
			place.KeyBlocked.KeyBase64 = []byte(b.Key)
		}
	}
	if x := n.Suspects; x.Count > 0 {
		place.Suspects = &api.Suspects{Count: x.Count, Seq: uint64(x.Offset), InFlight: x.InFlight, Failed: int(x.Failed)}
	}
	for _, x := range spins {
		place.Spinning = append(place.Spinning, api.SpinningMessage{Seq: uint64(x.Offset), PerSecond: x.PerSecond})
	}
	return place
}

// counted is the owner of a topic.Consumer.
type counted interface{ Stats() stats.Client }
