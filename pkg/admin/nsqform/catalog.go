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

// Broker is what a Catalog asks of a node.
type Broker struct {
	TopicMaker
	Node
}

// TopicMaker makes topics, and knows those that there are.
type TopicMaker interface {
	// Topic returns one topic, or an error that wraps failure.TopicNotFound.
	Topic(name string) (*meta.Topic, error)
	// CreateTopic makes a topic; zero fields of cfg get defaults. A topic that
	// exists with the same configuration is no error, one with another is
	// failure.TopicExists.
	CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error)
}

// Node tells of itself.
type Node interface {
	// TopicStats describes topics and their channels, as far as this node leads
	// them, sorted by name. A filter that is "" lets all pass. Clients are listed
	// if asked for.
	TopicStats(topicFilter, channelFilter string, clients bool) []stats.Topic
	// Ready says what keeps this node from serving. Empty: it is ready.
	Ready() []health.Reason
}

// Deletions knows what was deleted recently.
type Deletions interface {
	// DeletedLately reports whether a topic, or with a name one of its channels, was
	// deleted within the last seconds, at whatever node.
	DeletedLately(topic, channel string) bool
}

// ClusterReader tells of the cluster as this node sees it.
type ClusterReader interface {
	Cluster() api.Cluster
}

// Catalog is what there is: topics and channels by their names.
type Catalog struct{ Broker Broker }

// Topic returns the topic of a name that may be no name at all.
func (c Catalog) Topic(name string) (*meta.Topic, error) {
	if !meta.NSQName(name) {
		return nil, failure.TopicNotFound
	}
	return c.Broker.Topic(name)
}

// Find returns the error of a topic that there is not. Asking first keeps the
// order of the checks the same whatever the broker looks at first.
func (c Catalog) Find(name string) error {
	_, err := c.Topic(name)
	return err
}

// Whole returns the error of a topic that there is not, or of a request that names a
// partition, which is not all of the topic: what acts on topics and channels acts on
// all partitions, and must not do more than it is asked.
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

// Make makes a topic of default configuration unless there is one. It is what
// an explicit request asks for, so it does so where topics are not made on
// first use, too.
func (c Catalog) Make(ctx context.Context, name string) error {
	if c.Find(name) == nil {
		return nil
	}
	_, err := c.Broker.CreateTopic(ctx, name, meta.TopicConfig{})
	if errors.Is(err, failure.TopicExists) {
		return nil // someone else was faster
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

// CreateTopic makes a topic of default configuration. One that exists is left
// as it is, however it is configured. A bad name is answered with the word
// invalid.
func (c Catalog) CreateTopic(invalid string) Endpoint {
	return func(r *http.Request) (any, error) {
		_, name, err := TopicParam(r, invalid)
		if err != nil {
			return nil, err
		}
		return nil, c.Make(r.Context(), name)
	}
}
