package metrics

import (
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/operate"
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
	sum.add(t)
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
	sum := newTopicSum(name)
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

func newTopicSum(name string) *topicSum { return &topicSum{name: name, quota: -1} }

// add adds a topic without its channels.
func (s *topicSum) add(t *stats.Topic) {
	s.messages += t.Messages
	s.bytes += t.Bytes
	s.duplicates += t.Dedup.Duplicates
	s.refused += t.Refused
	s.expelled += t.Dropped
	s.quota = max(s.quota, t.QuotaUsed)
	s.logBytes += t.LogBytes
	s.depth += t.Depth
	s.paused = s.paused || t.Paused
	for _, p := range t.Partitions {
		if p.LogEnd > p.LogStart {
			s.stored += uint64(p.LogEnd - p.LogStart)
		}
	}
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

// replicaLag sums what the followers on one node lack of the partitions that this node leads.
type replicaLag struct {
	partitions int           // that it follows
	behind     int           // of those, partitions with a lag
	messages   int64         // that it lacks in total
	bytes      int64         // likewise, approximately
	longest    time.Duration // longest time since one of them was level; those that never were do not count
}

// lags returns the lag of followers by node.
func lags(all []operate.Follower) map[string]*replicaLag {
	byNode := map[string]*replicaLag{}
	for i := range all {
		f := &all[i]
		l := byNode[f.Node]
		if l == nil {
			l = &replicaLag{}
			byNode[f.Node] = l
		}
		l.partitions++
		if f.Lag > 0 {
			l.behind++
		}
		l.messages += f.Lag
		l.bytes += f.LagBytes
		l.longest = max(l.longest, time.Duration(f.BehindFor))
	}
	return byNode
}
