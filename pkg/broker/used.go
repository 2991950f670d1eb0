package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// use notes that a client of this node uses the topic.
func (h *hostedTopic) use() {
	if !h.used.Load() {
		h.used.Store(true)
	}
}

// NodeStats describes what an nsqd in this node's place would have: the topics of
// which this node leads a partition, as far as it leads them, and those that its
// clients have used since it started and of which it leads none. Of the latter the
// figures are the cluster's, and Elsewhere is set. A topic that is asked for by its
// name is described either way.
//
// Figures of a topic are so the sums over the nodes that a lookup names: a node that
// leads a part never tells more than that part.
func (o *contents) NodeStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic {
	own := o.d.TopicStats(topicFilter, channelFilter, clients)
	led := map[string]bool{}
	for i := range own {
		led[own[i].Name] = true
	}
	elsewhere := map[string]bool{}
	for _, h := range o.d.hostedTopics() {
		if !led[h.name] && (h.name == topicFilter || topicFilter == "" && h.used.Load()) {
			elsewhere[h.name] = true
		}
	}
	if len(elsewhere) == 0 {
		return own
	}
	for _, t := range o.ClusterStats(ctx, topicFilter, channelFilter, clients) {
		if elsewhere[t.Name] {
			t.Elsewhere = true
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b stats.Topic) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// deletedFor is how long a deletion is remembered. Tools delete at one node after the
// other what all of them have in common.
const deletedFor = 10 * time.Second

// maxDeletions bounds the deletions that are remembered.
const maxDeletions = 4096

// deletions remembers what was deleted of late, wherever that was asked for. Its
// methods may be called by many goroutines.
type deletions struct {
	mu sync.Mutex // guards what follows
	at map[deletion]time.Time
}

// deletion is a topic, or one of its channels.
type deletion struct{ topic, channel string }

// add remembers a deletion from now on.
func (d *deletions) add(what deletion, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, at := range d.at {
		if now.Sub(at) >= deletedFor {
			delete(d.at, k)
		}
	}
	if d.at == nil {
		d.at = map[deletion]time.Time{}
	}
	if len(d.at) < maxDeletions {
		d.at[what] = now
	}
}

// compare remembers the channels that was has and is has not.
func (d *deletions) compare(was, is *meta.Topic, now time.Time) {
	if was == is {
		return
	}
	for name := range was.Channels {
		if is.Channels[name] == nil {
			d.add(deletion{was.Name, name}, now)
		}
	}
}

// has says whether something was deleted of late.
func (d *deletions) has(what deletion, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[what]
	return ok && now.Sub(at) < deletedFor
}

// DeletedLately says whether a topic, or with a name one of its channels, was deleted
// within the last ten seconds, at whatever node, as far as this one has learnt it.
func (n *shelf) DeletedLately(topic, channel string) bool {
	return n.deleted.has(deletion{topic, channel}, time.Now())
}
