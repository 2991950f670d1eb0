package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
)

// catalog is what there is: topics, channels and nodes by their names.
type catalog struct{ broker Broker }

// topic returns the topic of a name that may be no name at all.
func (c catalog) topic(name string) (*meta.Topic, error) {
	if !meta.NSQName(name) {
		return nil, broker.ErrTopicNotFound
	}
	return c.broker.Topic(name)
}

// find returns the error of a topic that there is not. Asking first keeps the
// order of the checks the same whatever the broker looks at first.
func (c catalog) find(name string) error {
	_, err := c.topic(name)
	return err
}

// whole returns the error of a topic that there is not, or of a request that names a
// partition, which is not all of the topic: what acts on topics and channels acts on
// all partitions, and must not do more than it is asked.
func (c catalog) whole(r *http.Request, name string) error {
	t, err := c.topic(name)
	if err != nil {
		return err
	}
	p, err := readParams(r)
	if err != nil {
		return err
	}
	n, err := p.partitionOf(t)
	if err == nil && n != broker.AnyPartition && len(t.Partitions) > 1 {
		err = refuse("WHOLE_TOPIC_ONLY: this applies to all partitions of a topic; omit the partition")
	}
	return err
}

// ensure makes a topic that there is not for somebody who uses it.
func (c catalog) ensure(ctx context.Context, name string) error {
	if c.find(name) == nil {
		return nil
	}
	return c.broker.EnsureTopic(ctx, name)
}

// make makes a topic of default configuration unless there is one. It is what
// an explicit request asks for, so it does so where topics are not made on
// first use, too.
func (c catalog) make(ctx context.Context, name string) error {
	if c.find(name) == nil {
		return nil
	}
	_, err := c.broker.CreateTopic(ctx, name, meta.TopicConfig{})
	if errors.Is(err, broker.ErrTopicExists) {
		return nil // someone else was faster
	}
	return err
}

// channels returns the names of a topic's channels, sorted: those of the
// metadata and the ephemeral ones of this node.
func (c catalog) channels(t *meta.Topic) []string {
	names := map[string]bool{}
	for name := range t.Channels {
		names[name] = true
	}
	for _, ts := range c.broker.TopicStats(t.Name, "", false) {
		for _, ch := range ts.Channels {
			names[ch.Name] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

// has says whether the metadata, as far as this node knows it, has a channel.
func (c catalog) has(topic, channel string) bool {
	t, err := c.topic(topic)
	return err == nil && t.Channels[channel] != nil
}

// hasChannel says whether a channel exists: in the metadata, or ephemeral on any
// node.
func (c catalog) hasChannel(ctx context.Context, t *meta.Topic, channel string) bool {
	if _, ok := t.Channels[channel]; ok {
		return true
	}
	for _, ts := range c.broker.ClusterStats(ctx, t.Name, channel, false) {
		for _, ch := range ts.Channels {
			if ch.Name == channel {
				return true
			}
		}
	}
	return false
}
