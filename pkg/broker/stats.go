package broker

import (
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TopicStats describes the topics of which this node leads a partition, sorted by
// name, as far as it leads them. The filters choose one topic or one channel; ""
// is all. Without clients, the channels' lists of clients stay nil; they are
// counted all the same.
func (n *shelf) TopicStats(topicFilter, channelFilter string, clients bool) []stats.Topic {
	all := n.hostedTopics()
	stats := make([]stats.Topic, 0, len(all))
	now := time.Now()
	for _, h := range all {
		if (topicFilter == "" || topicFilter == h.name) && len(h.led()) > 0 {
			stats = append(stats, h.stats(now, channelFilter, clients))
		}
	}
	return stats
}

func (h *hostedTopic) stats(now time.Time, channelFilter string, clients bool) stats.Topic {
	t := h.config.Load()
	s := stats.Topic{
		Name: h.name, Ephemeral: meta.IsEphemeral(h.name), Paused: t.Paused,
		Ordered: t.Config.Ordered, Ext: t.Config.Ext,
	}
	led := slices.DeleteFunc(slices.Clone(h.led()), func(lp *ledPartition) bool {
		return lp.index >= len(t.Partitions) // it is being added: the configuration comes last
	})
	for _, lp := range led {
		l, i := lp.replica.Log(), lp.index
		s.Partitions = append(s.Partitions, stats.Partition{
			Partition: i, Leader: string(t.Partitions[i].Leader), Epoch: t.Partitions[i].Epoch,
			Replicas: texts(t.Partitions[i].Replicas), ISR: texts(t.Partitions[i].ISR),
			LogStart: l.Start(), CommittedEnd: l.CommittedEnd(), LogEnd: l.End(), Bytes: l.Bytes(),
		})
		s.LogBytes += l.Bytes()
		n := lp.part.Counts()
		s.Messages += n.Messages
		s.Bytes += n.Bytes
		s.Depth += n.Pending
		if k := lp.once.Load(); k != nil {
			s.Dedup = s.Dedup.Plus(k.Counts())
		}
	}
	n := h.disk.Counts()
	s.Refused, s.Dropped = n.Refused, n.Dropped
	for _, name := range channelNames(led) {
		if channelFilter == "" || channelFilter == name {
			s.Channels = append(s.Channels, channelStats(led, now, name, t, clients))
		}
	}
	return s
}

func texts(ids []meta.NodeID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}

// channelNames returns the names of the channels of some partitions, sorted.
func channelNames(led []*ledPartition) []string {
	names := map[string]struct{}{}
	for _, lp := range led {
		for _, c := range lp.part.Channels() {
			names[c.Name()] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// channelStats describes a channel as far as it is in some partitions of t.
func channelStats(led []*ledPartition, now time.Time, name string, t *meta.Topic, clients bool) stats.Channel {
	s := stats.Channel{Name: name, Ephemeral: meta.IsEphemeral(name)}
	if c := t.Channels[name]; c != nil {
		s.Ordered = c.Ordered
	}
	seen := map[*Subscription]bool{}
	for _, lp := range led {
		c := lp.part.Channel(name)
		if c == nil {
			continue
		}
		n := c.Stats()
		s.Paused = s.Paused || n.Paused
		s.Depth += n.Depth
		s.InFlight += n.InFlight
		s.Deferred += n.Deferred
		s.Messages += n.Messages
		s.Delivered += n.Delivered
		s.Finished += n.Finished
		s.Requeued += n.Requeued
		s.TimedOut += n.TimedOut
		s.Expired += n.Expired
		s.Failing.Add(stats.Failing{
			Exhausted: n.Exhausted, BackingOff: n.Waiting, RateLimited: n.Limited,
			BackedOff: n.BackedOff, DeadLettered: c.Failed.DeadLettered(), Dropped: c.Failed.Dropped(),
		})
		s.Latency = latency.Merged(s.Latency, n.Latency)
		s.Rates.Add(c.Flow.Rates(now, topic.TotalsOf(n.Counts)))
		if at, ok := lp.part.OldestAt(c); ok {
			s.OldestAge = max(s.OldestAge, now.Sub(at))
		}
		place := stats.Place{
			Partition: lp.index, Leader: string(t.Partitions[lp.index].Leader),
			Confirmed: n.Floor, Lag: int64(lp.part.Log().CommittedEnd()) - int64(n.Floor), Blocked: n.Blocked,
		}
		for _, x := range c.Spins.At(now) {
			place.Spinning = append(place.Spinning, Spinning(x))
		}
		s.Partitions = append(s.Partitions, place)
		for _, k := range c.Consumers() {
			sub := k.Owner().(*Subscription)
			if !seen[sub] {
				seen[sub] = true
				s.Consumers++
				if clients {
					s.Clients = append(s.Clients, sub.stats())
				}
			}
		}
	}
	if clients && s.Clients == nil {
		s.Clients = []stats.Client{}
	}
	return s
}

// stats describes the subscription's connection.
func (s *Subscription) stats() stats.Client {
	c := s.ask.Client.ClientStats()
	c.Ready = s.ready.Load()
	sum := s.sources.Load().counts()
	c.InFlight, c.Delivered, c.Finished = sum.InFlight, sum.Delivered, sum.Finished
	c.Requeued, c.TimedOut = sum.Requeued, sum.TimedOut
	return c
}
