package nsqd

import (
	"context"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/stats"
)

// ErrUnknownOption is returned by a Config for an option that there is not, or
// that may not change.
var ErrUnknownOption = fate.Refuse("unknown or read-only option")

// TopicWriter changes topics. Every call returns once this node has the change.
type TopicWriter interface {
	nsqform.TopicMaker
	DeleteTopic(ctx context.Context, name string) error
	PauseTopic(ctx context.Context, name string, paused bool) error
	// CreateChannel makes a channel of an existing topic. One that is there
	// already is no error.
	CreateChannel(ctx context.Context, topic, channel string, ordered bool) error
}

// Contents changes what topics and channels hold, and counts it. Every change returns once
// this node has it.
type Contents interface {
	// EmptyTopic drops the messages that no channel has got yet.
	EmptyTopic(ctx context.Context, name string) error
	DeleteChannel(ctx context.Context, topic, channel string) error
	EmptyChannel(ctx context.Context, topic, channel string) error
	PauseChannel(ctx context.Context, topic, channel string, paused bool) error
	SeekChannel(ctx context.Context, topic, channel string, to operate.SeekTo) error
	// NodeStats is TopicStats and, of topics that are led elsewhere, what the cluster
	// has: of the one that is asked for, or of those that clients of this node use.
	NodeStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
	// ClusterStats is TopicStats over all nodes that lead.
	ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
}

// Broker is what this package asks of a node, but for publishing. All of it is required; its
// methods may be called at any time by any number of goroutines.
type Broker struct {
	TopicWriter
	Contents
	nsqform.Node
	nsqform.Deletions
	nsqform.ClusterReader
}

// Lookups knows what the lookup endpoints of this node were told recently.
type Lookups interface {
	// HasDeleted reports whether they have deleted a topic, or with a name a channel.
	HasDeleted(topic, channel string, now time.Time) bool
	// TombstonedHere reports whether a topic has a tombstone on this node.
	TombstonedHere(topic string, now time.Time) bool
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

// Options is what the endpoints work with. All is required but ConfigFrom,
// Figures and Debug.
type Options struct {
	Broker     Broker
	Publishing *web.Publishing
	Lookups    Lookups
	Identity   nsqform.Identity
	// Clients returns all connections of the node, for the producers in /stats.
	Clients func() []stats.Client
	Config  Config // serves /config
	// ConfigFrom is where clients come from that may change options, and profile.
	ConfigFrom web.Networks
	// Figures tell how depths and latencies are put in the form of nsqd.
	Figures Figures
	// Debug serves /debug/pprof, /debug/setblockrate and /debug/freememory to ConfigFrom.
	Debug bool
}

// Route adds nsqd's endpoints.
func Route(t *nsqform.Router, o Options) {
	names := nsqform.Catalog{Broker: nsqform.Broker{TopicMaker: o.Broker.TopicWriter, Node: o.Broker.Node}}
	publishing{o.Publishing, func() string { return o.Broker.Cluster().ClusterID }}.route(t)
	(&nodeTopics{Catalog: names, broker: o.Broker, lookups: o.Lookups, own: nsqform.NewRecently(nsqform.DeletedFor), bodies: o.Publishing.Bodies}).route(t)
	(&reports{names, o}).route(t)
	if o.Debug {
		routeDebug(t, o.ConfigFrom)
	}
}
