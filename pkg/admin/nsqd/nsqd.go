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
	CreateChannel(ctx context.Context, topic, channel string, ordered bool) error
}

// Contents changes and counts the contents of topics and channels. Every change returns once this
// node has applied it.
type Contents interface {
	EmptyTopic(ctx context.Context, name string) error
	DeleteChannel(ctx context.Context, topic, channel string) error
	EmptyChannel(ctx context.Context, topic, channel string) error
	PauseChannel(ctx context.Context, topic, channel string, paused bool) error
	SeekChannel(ctx context.Context, topic, channel string, to operate.SeekTo) error
	NodeStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
	ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
}

// Broker is the part of a node that this package uses, except for publishing. All methods are
// required and safe for concurrent use.
type Broker struct {
	TopicWriter
	Contents
	nsqform.Node
	nsqform.Deletions
	nsqform.ClusterReader
}

// Lookups knows the recent requests to the lookup endpoints of this node.
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
	// SetOption sets an option that may change at run time to a value received over HTTP. It
	// returns ErrUnknownOption for other options, and another error for an invalid value.
	SetOption(name string, value []byte) error
}

// Options are the dependencies of the endpoints. All are required except ConfigFrom, Figures and
// Debug.
type Options struct {
	Broker     Broker
	Publishing *web.Publishing
	Lookups    Lookups
	Identity   nsqform.Identity
	// Clients returns all connections of the node, for the producers in /stats.
	Clients func() []stats.Client
	Config  Config // serves /config
	// ConfigFrom are the networks of clients that may change options, and profile.
	ConfigFrom web.Networks
	// Figures define how depths and latencies are presented in nsqd's format.
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
