package broker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/trace"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// DefaultMaxMsgTimeout is the default limit up to which TOUCH can extend a delivery.
const DefaultMaxMsgTimeout = 15 * time.Minute

// Options describe a node. The zero value of a number means its default.
type Options struct {
	Self    meta.NodeID
	FS      vfs.FS
	DataDir string
	Meta    *raftstore.Store // owned by the caller, open until after Close
	Remote  forward.Remote   // how this node calls others; nil: it is alone
	Peers   coord.Peers      // how its replicas reach other nodes; nil: it is alone
	Members operate.Members  // the members of the metadata group; nil: this node is alone
	Node    meta.Node        // how this node announces itself
	Log     commitlog.Options
	Redo    redo.Options // of the redo journal; the node sets its directories
	Logger  *slog.Logger

	AutoCreateTopics    bool             // publishing and subscribing create topics, unless the cluster's settings forbid it
	TopicDefaults       meta.TopicConfig // of topics that are created without a configuration; zero fields: the cluster's defaults
	MaxChannelConsumers int              // on this node; 0: no limit
	MaxMessage          int              // bytes of the largest message that this node takes from its clients. 1 MiB
	MaxMsgTimeout       time.Duration    // the limit up to which TOUCH can extend a delivery
	EphemeralBytes      int64            // memory that a partition of an ephemeral topic may use; beyond it the oldest messages are dropped
	DiskReserve         uint64           // publishes are refused while less is free; at most a twentieth of the disk counts
	TickInterval        time.Duration    // precision of timeouts and deferrals
	RetentionInterval   time.Duration
	DiskInterval        time.Duration
	ReplicaLag          time.Duration // a replica that lags for longer leaves the in-sync set
	PublishTimeout      time.Duration // a message that is not committed by then gets an answer with uncertain outcome
	CatchUpRate         int64         // bytes per second to replicas that are not in sync; 0: no limit
	UncommittedBytes    int64         // of all partitions that this node leads; beyond this, publishers wait or are refused
	Memory              *limit.Memory // limits the memory that requests of clients use; nil: no limit
	Lease               time.Duration // the node delivers nothing after it had no contact to a quorum for longer than this
	// ScrubInterval is the time in which every stored byte is read once to find damage; negative:
	// the node does not scrub.
	ScrubInterval time.Duration
	Moves         topic.MovePolicy // which messages are appended again; the broker sets its Room
	Trace         *trace.Store     // stores the events of traced messages; nil: no tracing
	LatencyWindow time.Duration    // for how long channels keep the times that messages took until they were finished; 0: not at all
	// WallClock returns what the wall clock shows at a moment that was just read, in ns since 1970.
	// It stamps messages and measures the age of stored ones. nil: the system's clock. Delays and
	// timeouts do not depend on it.
	WallClock func(now time.Time) int64

	// Registered means that the caller has registered this start of the node, and that Meta is at
	// least at the index of the registration.
	Registered bool

	// KnownChannels returns the channels that a new topic has outside this cluster. They are
	// created with the topic. nil: none.
	KnownChannels func(ctx context.Context, topic string) ([]string, error)
	// Observer receives statistics; nil disables it.
	Observer host.Observer
	// Fatal is called once, without waiting, when this node cannot continue: a log has failed, and
	// the node's acknowledgements could not be trusted any more.
	Fatal func(error)
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

	stop      context.CancelCauseFunc // ends the work that calls does by itself
	running   sync.WaitGroup          // the work that calls does by itself
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
	ho := o.host()
	ho.Exhausted = func(s deadletter.Source) { letters.Poke(s) }
	h, err := host.New(ho)
	if err != nil {
		return nil, err
	}
	to := o.calls()
	d := directory.New(directory.Options{
		Self: o.Self, Meta: o.Meta, Calls: to, Logger: o.Logger,
		AutoCreateTopics: o.AutoCreateTopics, TopicDefaults: o.TopicDefaults, KnownChannels: o.KnownChannels,
	}, h)
	c := &Calls{topics: d, tasks: &fan.Group{}, ops: forward.Operations{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.publishes = publish.New(publish.Options{
		Self: o.Self, Meta: o.Meta, Calls: to, Memory: o.Memory, PublishTimeout: o.PublishTimeout, Observer: o.Observer,
	}, h, d, c.tasks)
	c.consumers = consume.New(c.life, consume.Options{
		Self: o.Self, Meta: o.Meta, Calls: to, Logger: o.Logger, MaxChannelConsumers: o.MaxChannelConsumers,
		MaxMsgTimeout: o.MaxMsgTimeout, PublishTimeout: o.PublishTimeout, Lease: o.Lease,
	}, h, d, c.tasks)
	letters = deadletter.NewWorker(c.life, letterbox{o.Meta, d, c.publishes}, o.Logger, c.tasks.Go)
	n, operator, contents := operate.New(operate.Options{Self: o.Self, Meta: o.Meta, Calls: to, Agreement: o.Members, Log: o.Logger, Letters: letters, Trace: o.Trace, MaxMessage: o.MaxMessage}, h, d)
	h.Register(c.ops)
	c.consumers.Register(c.ops)
	n.Register(c.ops)
	return &Broker{
		Host: h, Directory: d, Router: c.publishes, Consumers: c.consumers, Node: n, Operator: operator, Contents: contents, Recorder: operate.NewRecorder(n), Calls: c,
	}, nil
}

// host returns the options of the host.
func (o *Options) host() host.Options {
	return host.Options{
		Self: o.Self, FS: o.FS, DataDir: o.DataDir, Redo: o.Redo, Meta: o.Meta, Calls: o.calls(), Peers: o.Peers,
		Node: o.Node, Registered: o.Registered, Log: o.Log, Logger: o.Logger, Observer: o.Observer, Fatal: o.Fatal,
		EphemeralBytes: o.EphemeralBytes, DiskReserve: o.DiskReserve,
		TickInterval: o.TickInterval, RetentionInterval: o.RetentionInterval, DiskInterval: o.DiskInterval,
		ReplicaLag: o.ReplicaLag, PublishTimeout: o.PublishTimeout, UncommittedBytes: o.UncommittedBytes,
		Memory: o.Memory, Lease: o.Lease, ScrubInterval: o.ScrubInterval,
		CatchUpRate: o.CatchUpRate, Moves: o.Moves, Trace: o.Trace, LatencyWindow: o.LatencyWindow, WallClock: o.WallClock,
	}
}

// calls returns the caller through which this node calls others.
func (o *Options) calls() forward.Caller {
	return forward.Caller{Remote: o.Remote}
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
