package broker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
)

// DefaultMaxMsgTimeout is the default limit up to which TOUCH can extend a delivery.
const DefaultMaxMsgTimeout = 15 * time.Minute

// Options describe a node: its replicas and what clients may do. The zero value of a number means its default.
type Options struct {
	host.Options // Meta is owned by the caller, and open until after Close; Exhausted is set by Open

	Members operate.Members // the members of the metadata group; nil: this node is alone

	AutoCreateTopics    bool                              // publishing and subscribing create topics, unless the cluster's settings forbid it
	TopicDefaults       meta.TopicConfig                  // of topics that are created without a configuration; zero fields: the cluster's defaults
	MaxChannelConsumers int                               // on this node; 0: no limit
	MaxMessage          int                               // bytes of the largest message that this node takes from its clients. 1 MiB
	Process             operate.Process                   // nil: its settings are unknown
	OtherClusters       func() []string                   // see operate.Options
	Certificates        func() []health.Certificate       // see operate.Options
	Skew                func(now time.Time) time.Duration // likewise
	Awaited             func() []meta.NodeID              // see operate.Options
	Unreached           func() []formation.Unreached      // see operate.Options
	MaxMsgTimeout       time.Duration                     // the limit up to which TOUCH can extend a delivery

	// KnownChannels returns the channels that a new topic has outside this cluster. They are
	// created with the topic. nil: none.
	KnownChannels func(ctx context.Context, topic string) ([]string, error)
}

func (o Options) withDefaults() Options {
	o.MaxMessage = cmp.Or(o.MaxMessage, 1<<20)
	o.MaxMsgTimeout = cmp.Or(o.MaxMsgTimeout, DefaultMaxMsgTimeout)
	o.PublishTimeout = cmp.Or(o.PublishTimeout, host.DefaultPublishTimeout)
	o.Lease = cmp.Or(o.Lease, host.DefaultLease)
	o.Observer = cmp.Or[host.Observer](o.Observer, host.Deaf{})
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	return o
}

// Broker is one node: its rooms, which callers use directly, and its start and end. The fields do
// not change. All methods are safe for concurrent use.
type Broker struct {
	Host      *host.Host           // the replicas
	Directory *directory.Directory // changes topics and channels
	Router    *publish.Router      // publishes
	Consumers *consume.Consumers   // subscriptions
	Node      *operate.Node        // answers operators' questions to this node
	Operator  *operate.Operator    // nodes, leaders and replicas
	Contents  *operate.Contents    // messages and positions
	Recorder  *operate.Recorder    // what operators did
	Calls     *Calls               // answers other nodes

	stop      context.CancelCauseFunc // ends the work that calls does on its own goroutines
	running   sync.WaitGroup          // the work that calls does on its own goroutines
	closeOnce sync.Once
	closeErr  error
}

// Open starts a node: it announces itself in the metadata, which must have a
// leader, and opens every partition that the metadata gives it. It returns when
// the node can serve.
func Open(ctx context.Context, o Options) (*Broker, error) {
	b, err := assemble(o.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := b.Host.Open(ctx); err != nil {
		return nil, errors.Join(err, b.Host.Close())
	}
	loops, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	b.stop = stop
	b.running.Go(func() { b.Calls.run(loops) })
	return b, nil
}

// assemble creates the rooms of a node, each after those that it uses.
func assemble(o Options) (*Broker, error) {
	var letters *deadletter.Worker
	o.Exhausted = func(s deadletter.Source) { letters.Poke(s) }
	h, err := host.New(o.Options)
	if err != nil {
		return nil, err
	}
	d := directory.New(directory.Options{
		Self: o.Self, Meta: o.Meta, Calls: o.Calls, Logger: o.Logger,
		AutoCreateTopics: o.AutoCreateTopics, TopicDefaults: o.TopicDefaults, KnownChannels: o.KnownChannels,
	}, h)
	c := &Calls{host: h, topics: d, tasks: &fan.Group{}, ops: forward.Operations{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.publishes = publish.New(publish.Options{
		Self: o.Self, Meta: o.Meta, Calls: o.Calls, Memory: o.Memory, PublishTimeout: o.PublishTimeout, Observer: o.Observer,
	}, h, d, c.tasks)
	c.consumers = consume.New(c.life, consume.Options{
		Self: o.Self, Meta: o.Meta, Calls: o.Calls, Logger: o.Logger, Memory: o.Memory, MaxChannelConsumers: o.MaxChannelConsumers,
		MaxMsgTimeout: o.MaxMsgTimeout, PublishTimeout: o.PublishTimeout, Lease: o.Lease,
	}, h, d, c.tasks)
	letters = deadletter.NewWorker(c.life, deadLetterNode{o.Meta, d, c.publishes}, o.Logger, c.tasks.Go)
	n, operator, contents := operate.New(operate.Options{Self: o.Self, Meta: o.Meta, Calls: o.Calls, Agreement: o.Members, Log: o.Logger, Letters: letters, Trace: o.Trace, MaxMessage: o.MaxMessage, Process: o.Process, OtherClusters: o.OtherClusters, Certificates: o.Certificates, Skew: o.Skew, Awaited: o.Awaited, Unreached: o.Unreached}, h, d)
	h.Register(c.ops)
	c.consumers.Register(c.ops)
	n.Register(c.ops)
	return &Broker{
		Host: h, Directory: d, Router: c.publishes, Consumers: c.consumers, Node: n, Operator: operator, Contents: contents, Recorder: &operate.Recorder{Node: n}, Calls: c,
	}, nil
}

// Close shuts the broker down: it disconnects consumers, completes and stores accepted work,
// and closes the logs so that nothing has to be recovered. The caller must have stopped passing
// requests.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.Host.Exit()
		b.stop(failure.ShuttingDown)
		b.running.Wait()
		b.closeErr = b.Host.Close()
	})
	return b.closeErr
}
