package metrics

import (
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/stats"
)

// Names of the sums of many topics or channels.
const (
	otherName     = "_other"
	ephemeralName = "#ephemeral"
)

// topicSum is a topic, or the sum of several, as exported.
type topicSum struct {
	name     string
	messages uint64 // published
	bytes    uint64 // of their bodies
	logBytes int64
	stored   uint64 // messages in the logs
	depth    int64
	paused   bool

	duplicates, refused, expelled uint64
	quota                         float64 // negative: no topic has a maximum
}

// channelSum is a channel, or the sum of several, as exported.
type channelSum struct {
	topic, name string
	api.ChannelCounts
	consumers int
	ready     int64
	paused    bool
	oldest    time.Duration
	throttled time.Duration
	lag       int64
	spinning  int
	blocked   int // partitions
}

// folded is the topics and channels of one scrape.
type folded struct {
	topics   []*topicSum
	channels []*channelSum
	dropped  int // objects without their own series
}

// fold sums up ephemeral objects, and those beyond the first most objects.
// Topics and their channels count as one each, in the order of stats, so that
// the same ones have their own series in every scrape.
func fold(stats []stats.Topic, most int) folded {
	f := folder{
		most:     most,
		topics:   map[string]*topicSum{},
		channels: map[[2]string]*channelSum{},
	}
	for i := range stats {
		f.add(&stats[i])
	}
	return f.out
}

type folder struct {
	most     int
	own      int // objects with their own series
	topics   map[string]*topicSum
	channels map[[2]string]*channelSum
	out      folded
}

// add adds one topic and its channels.
func (f *folder) add(t *stats.Topic) {
	name := t.Name
	if t.Ephemeral {
		name = ephemeralName
	}
	sum := f.topic(name)
	sum.messages += t.Messages
	sum.bytes += t.Bytes
	sum.duplicates += t.Dedup.Duplicates
	sum.refused += t.Refused
	sum.expelled += t.Dropped
	sum.quota = max(sum.quota, t.QuotaUsed)
	sum.logBytes += t.LogBytes
	sum.depth += t.Depth
	sum.paused = sum.paused || t.Paused
	for _, p := range t.Partitions {
		if p.LogEnd > p.LogStart {
			sum.stored += uint64(p.LogEnd - p.LogStart)
		}
	}
	if sum.name == otherName {
		f.out.dropped += len(t.Channels)
	}
	for i := range t.Channels {
		c := &t.Channels[i]
		channel := c.Name
		if c.Ephemeral {
			channel = ephemeralName
		}
		f.channel(sum.name, channel).add(c)
	}
}

// standsForMany reports whether a topic's name is the name of a sum.
func standsForMany(topic string) bool { return topic == otherName || topic == ephemeralName }

// topic returns the sum to which a topic is added.
func (f *folder) topic(name string) *topicSum {
	if sum, ok := f.topics[name]; ok {
		return sum
	}
	if !standsForMany(name) {
		if f.own >= f.most {
			f.out.dropped++
			return f.topic(otherName)
		}
		f.own++
	}
	sum := &topicSum{name: name, quota: -1}
	f.topics[name] = sum
	f.out.topics = append(f.out.topics, sum)
	return sum
}

// channel returns the sum to which a channel is added. A sum of topics has one
// sum of all their channels.
func (f *folder) channel(topic, name string) *channelSum {
	if standsForMany(topic) {
		name = topic
	}
	key := [2]string{topic, name}
	if sum, ok := f.channels[key]; ok {
		return sum
	}
	if !standsForMany(topic) {
		if f.own >= f.most {
			f.out.dropped++
			return f.channel(otherName, otherName)
		}
		f.own++
	}
	sum := &channelSum{topic: topic, name: name}
	f.channels[key] = sum
	f.out.channels = append(f.out.channels, sum)
	return sum
}

// add adds a channel.
func (s *channelSum) add(c *stats.Channel) {
	s.ChannelCounts.Add(&c.ChannelCounts)
	s.consumers += c.Consumers
	s.ready += c.Ready
	s.paused = s.paused || c.Paused
	s.oldest = max(s.oldest, c.OldestAge)
	s.throttled += c.Throttled
	for _, p := range c.Partitions {
		s.spinning += len(p.Spinning)
		if p.Blocked != nil {
			s.blocked++
		}
		s.lag += p.Lag
	}
}
