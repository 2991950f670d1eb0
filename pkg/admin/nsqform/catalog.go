package nsqform

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// Broker is the part of a node that a Catalog uses.
type Broker struct {
	TopicMaker
	Node
}

// TopicMaker creates topics, and lists the existing ones: a directory.Directory.
type TopicMaker interface {
	Topic(name string) (*meta.Topic, error)
	CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error)
}

// Node describes itself: an operate.Node.
type Node interface {
	TopicStats(topicFilter, channelFilter string, clients bool) []stats.Topic
	Ready() []health.Reason
}

// Deletions records recent deletions: a host.Topics.
type Deletions interface {
	DeletedLately(topic, channel string) bool
}

// ClusterReader returns the state of the cluster as known on this node.
type ClusterReader interface {
	Cluster() api.Cluster
}

// Catalog finds topics and channels by name.
type Catalog struct{ Broker Broker }

// Topic returns the topic of a name that may be no name at all.
func (c Catalog) Topic(name string) (*meta.Topic, error) {
	if !meta.NSQName(name) {
		return nil, failure.TopicNotFound
	}
	return c.Broker.Topic(name)
}

// Find returns the error for a missing topic. Checking first keeps the order of checks independent
// of the broker's.
func (c Catalog) Find(name string) error {
	_, err := c.Topic(name)
	return err
}

// Whole returns the error for a missing topic, or for a request that names a partition: requests
// for topics and channels act on all partitions, and must not do more than requested.
func (c Catalog) Whole(r *http.Request, name string) error {
	t, err := c.Topic(name)
	if err != nil {
		return err
	}
	p, err := ReadParams(r)
	if err != nil {
		return err
	}
	n, err := p.PartitionOf(t)
	if err == nil && n != host.AnyPartition && len(t.Partitions) > 1 {
		err = Refuse("WHOLE_TOPIC_ONLY: this applies to all partitions of a topic; omit the partition")
	}
	return err
}

// Make creates a topic with the default configuration unless it exists. It serves explicit
// requests, so it also works if topics are not created on first use.
func (c Catalog) Make(ctx context.Context, name string) error {
	if c.Find(name) == nil {
		return nil
	}
	_, err := c.Broker.CreateTopic(ctx, name, meta.TopicConfig{})
	if errors.Is(err, failure.TopicExists) {
		return nil // created concurrently
	}
	return err
}

// Channels returns the names of a topic's channels, sorted: those of the
// metadata and the ephemeral ones of this node.
func (c Catalog) Channels(t *meta.Topic) []string {
	names := map[string]bool{}
	for name := range t.Channels {
		names[name] = true
	}
	for _, ts := range c.Broker.TopicStats(t.Name, "", false) {
		for _, ch := range ts.Channels {
			names[ch.Name] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

// Has reports whether the metadata, as far as this node knows it, has a channel.
func (c Catalog) Has(topic, channel string) bool {
	t, err := c.Topic(topic)
	return err == nil && t.Channels[channel] != nil
}

// CreateTopic creates a topic with the default configuration. An existing topic is unchanged,
// whatever its configuration. An invalid name is answered with the word invalid.
func (c Catalog) CreateTopic(invalid string) Endpoint {
	return func(r *http.Request) (any, error) {
		_, name, err := TopicParam(r, invalid)
		if err != nil {
			return nil, err
		}
		return nil, c.Make(r.Context(), name)
	}
}
