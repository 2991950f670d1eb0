package admin

import (
	"context"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Publisher stores messages.
type Publisher interface {
	// Publish stores the messages and calls Done once. It has copied the
	// messages when it returns, whether Done was called or not.
	Publish(ctx context.Context, p broker.Publish)
}

// TopicReader knows the topics of the cluster.
type TopicReader interface {
	// Topics returns every topic, sorted by name. Neither the slice's topics
	// nor what they hold may be changed.
	Topics() []*meta.Topic
	// Topic returns one topic, or an error that wraps broker.ErrTopicNotFound.
	Topic(name string) (*meta.Topic, error)
}

// TopicWriter changes topics. Every call returns once this node has the change.
type TopicWriter interface {
	// CreateTopic makes a topic; zero fields of cfg get defaults. A topic that
	// exists with the same configuration is no error, one with another is
	// broker.ErrTopicExists.
	CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error)
	// EnsureTopic makes a topic of default configuration unless there is one.
	// Where topics are not made on first use it is broker.ErrTopicNotFound.
	EnsureTopic(ctx context.Context, name string) error
	// AlterTopic applies change to the topic's configuration. change may be
	// called more than once.
	AlterTopic(ctx context.Context, name string, change func(*meta.TopicConfig)) error
	AddPartitions(ctx context.Context, name string, total int) error
	DeleteTopic(ctx context.Context, name string) error
	// EmptyTopic drops the messages that no channel has got yet.
	EmptyTopic(ctx context.Context, name string) error
	PauseTopic(ctx context.Context, name string, paused bool) error
}

// ChannelWriter changes channels.
type ChannelWriter interface {
	// CreateChannel makes a channel of an existing topic. One that is there
	// already is no error.
	CreateChannel(ctx context.Context, topic, channel string, ordered bool) error
	DeleteChannel(ctx context.Context, topic, channel string) error
	EmptyChannel(ctx context.Context, topic, channel string) error
	PauseChannel(ctx context.Context, topic, channel string, paused bool) error
	SeekChannel(ctx context.Context, topic, channel string, to broker.SeekTo) error
}

// Observer looks at messages and counts and changes nothing.
type Observer interface {
	// TopicStats describes topics and their channels, sorted by name. A filter
	// that is "" lets all pass. Clients are listed if asked for.
	TopicStats(topicFilter, channelFilter string, clients bool) []broker.TopicStats
	Peek(ctx context.Context, p broker.Peek) ([]broker.Peeked, error)
	// Digest compares the replicas of a topic's partitions.
	Digest(ctx context.Context, topic string) ([]broker.PartitionDigest, error)
}

// Cluster is the cluster as this node sees it.
type Cluster interface {
	Cluster() broker.ClusterInfo
	// Health is the cluster's.
	Health() broker.Health
	// Ready is this node's: what keeps it from serving. Empty: it is ready.
	Ready() []broker.HealthReason
}

// Broker is all that this package asks of a node. Its methods may be called at
// any time by any number of goroutines.
type Broker interface {
	Publisher
	TopicReader
	TopicWriter
	ChannelWriter
	Observer
	Cluster
}

// Config reads and changes the node's options under the names that nsqd gives
// them, with _ for -.
type Config interface {
	// Option returns an option's value. known is false for no option.
	Option(name string) (value any, known bool)
	// SetOption gives an option that may change at run time a new value, as it
	// came over HTTP. It is ErrUnknownOption for one that may not, and any other
	// error for a bad value.
	SetOption(name string, value []byte) error
}
