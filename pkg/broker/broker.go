package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/forward"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Defaults of Options.
const (
	DefaultCheckpointInterval = 200 * time.Millisecond
	DefaultTickInterval       = 25 * time.Millisecond
	DefaultRetentionInterval  = 10 * time.Second
	DefaultDiskInterval       = 200 * time.Millisecond
	DefaultDiskReserve        = 256 << 20
	DefaultMaxMsgTimeout      = 15 * time.Minute
	DefaultEphemeralBytes     = 64 << 20
	DefaultReplicaLag         = 2 * time.Second
	DefaultPublishTimeout     = 5 * time.Second
	DefaultLease              = time.Second
	DefaultScrubInterval      = 7 * 24 * time.Hour
)

// What was appended last stays in memory for consumers and followers: of all logs together
// so much of what clients may make the node hold, and within these bounds.
const (
	tailPart   = 8
	leastTails = 8 << 20
	mostTails  = 128 << 20
)

// openTogether is how many partitions are opened, changed or closed at a time.
const openTogether = 16

// Options describe a node. The zero value of a number means its default.
type Options struct {
	Self    meta.NodeID
	FS      vfs.FS
	DataDir string
	Meta    *raftstore.Store // owned by the caller, open until after Close
	Remote  forward.Remote   // how this node asks others; nil: it is alone
	Peers   coord.Peers      // how its replicas reach others; nil: it is alone
	Members Members          // who takes part in the metadata; nil: this node is alone
	Node    meta.Node        // how this node announces itself
	Log     commitlog.Options
	Redo    redo.Options // of the journal for many logs; its directories are the node's
	Logger  *slog.Logger

	AutoCreateTopics    bool             // publishing and subscribing create topics, unless the cluster's settings forbid it
	TopicDefaults       meta.TopicConfig // of topics that are created without; zero fields: the cluster's
	MaxChannelConsumers int              // on this node; 0: no limit
	MaxMsgTimeout       time.Duration    // what TOUCH can extend a delivery to
	EphemeralBytes      int64            // memory that an ephemeral topic's partition may use; the oldest messages go
	DiskReserve         uint64           // publishes are refused while less is free; at most a twentieth of the disk counts
	CheckpointInterval  time.Duration    // positions of channels are stored this often at the most
	TickInterval        time.Duration    // precision of timeouts and deferrals
	RetentionInterval   time.Duration
	DiskInterval        time.Duration
	ReplicaLag          time.Duration // a replica that is behind for longer leaves the in-sync set
	PublishTimeout      time.Duration // a message that is not committed by then is answered as uncertain
	CatchUpRate         int64         // bytes a second to replicas that are not in sync, at most; 0: no maximum
	UncommittedBytes    int64         // of all partitions that this node leads; beyond, publishers wait or are refused
	Memory              *limit.Memory // of what clients make the node hold; nil: no limit
	Sizes               limit.Sizes   // of what is appended and replicated; zero: limit.Default
	Lease               time.Duration // without contact to a quorum for longer, nothing is delivered
	// ScrubInterval is the time in which every stored byte is read once to find
	// damage; negative: none is read for that.
	ScrubInterval time.Duration
	Moves         topic.MovePolicy // which messages are appended again; its Room is the broker's
	LatencyWindow time.Duration    // of which time channels keep how long messages took until they were finished; 0: they do not
	// WallClock is what the wall clock shows at a moment that was just read, in ns since
	// 1970: it stamps messages and ages what is stored. nil: the system's. Delays and
	// timeouts do not depend on it.
	WallClock func(now time.Time) int64

	// Registered says that the caller has announced this start of the node, and
	// that Meta is at least at that point.
	Registered bool

	// KnownChannels returns the channels that a topic which is new here has
	// elsewhere: they are created with it. nil: none.
	KnownChannels func(ctx context.Context, topic string) ([]string, error)
	// Observer is told what happens; nil: nobody is.
	Observer Observer
	// Fatal is called once, without waiting, when this node cannot go on: a log
	// failed, and nothing that it acknowledges could be trusted any more.
	Fatal func(error)
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxMsgTimeout, DefaultMaxMsgTimeout)
	setDefault(&o.EphemeralBytes, DefaultEphemeralBytes)
	setDefault(&o.DiskReserve, DefaultDiskReserve)
	setDefault(&o.CheckpointInterval, DefaultCheckpointInterval)
	setDefault(&o.TickInterval, DefaultTickInterval)
	setDefault(&o.RetentionInterval, DefaultRetentionInterval)
	setDefault(&o.DiskInterval, DefaultDiskInterval)
	setDefault(&o.ReplicaLag, DefaultReplicaLag)
	setDefault(&o.PublishTimeout, DefaultPublishTimeout)
	setDefault(&o.Lease, DefaultLease)
	setDefault(&o.ScrubInterval, DefaultScrubInterval)
	if o.WallClock == nil {
		o.WallClock = time.Time.UnixNano
	}
	setDefault(&o.UncommittedBytes, coord.DefaultUncommittedBytes)
	if o.Observer == nil {
		o.Observer = deaf{}
	}
	if o.Log.Buffers == nil {
		o.Log.Buffers = commitlog.NewBuffers()
	}
	if o.Log.Tails == nil {
		o.Log.Tails = commitlog.NewTails(min(max(o.Memory.Usage().Limit/tailPart, leastTails), mostTails))
	}
	if o.Log.Cache == nil {
		o.Log.Cache = commitlog.NewCache(o.Memory)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Broker is one node. Its methods may be called by many goroutines.
type Broker struct {
	*directory
	*operator
	*forwarding

	redo      *redo.FS           // what this node keeps goes through it
	ops       forward.Operations // what other nodes can ask for by name; not changed once the node is open
	lowDisk   atomic.Bool        // publishes are refused
	headroom  headroom           // until that is so
	disk      diskLevel          // of the goroutine that looks at the disk
	yielding  atomic.Bool        // leaderships are being handed over because the disk is full
	steady    age.Steady         // the clock of retention, of the goroutine that retains
	loops     context.CancelCauseFunc
	leaveOnce sync.Once
	closeOnce sync.Once
	closeErr  error
}

// Open starts a node: it announces itself in the metadata, which must have a
// leader, and opens every partition that the metadata gives it. It returns when
// the node can serve.
func Open(ctx context.Context, o Options) (*Broker, error) {
	o = o.withDefaults()
	dir, journaled, err := datadir.At(o.FS, o.DataDir).Journaled(o.Redo, o.Logger, o.Fatal)
	if err != nil {
		return nil, err
	}
	o.FS = dir.FS
	b := &Broker{redo: journaled, directory: &directory{hosting: newHosting(o)}}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, journaled.Close())
	}
	return b, nil
}

// register fills in what other nodes can ask for by name.
func (b *Broker) register() {
	b.ops = forward.Operations{}
	forward.Register(b.ops, forward.TransferLeader, b.Transfer)
	forward.Register(b.ops, askLeaving, b.seeOff)
	forward.Register(b.ops, askForget, quarantine{b.hosting}.forgetHere)
	forward.Register(b.ops, askConsumers, b.adopter.consumers)
	b.operator.register(b.ops)
}

func (b *Broker) open(ctx context.Context) error {
	b.operator = &operator{contents{desk{b.directory, b.Health}}}
	b.forwarding = newForwarding(b)
	b.letters = deadletter.NewWorker(letterbox{b}, b.log, b.running.Go)
	b.o.Moves.Room = b.hasRoom
	if err := b.join(ctx); err != nil {
		return err
	}
	if err := b.claim(); err != nil {
		return err
	}
	b.register()
	began := time.Now()
	if err := b.openAll(); err != nil {
		return errors.Join(err, b.closeTopics(err))
	}
	b.recovery.Store(int64(time.Since(began)))
	b.sweep()
	loops, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.loops = cancel
	b.startLoops(loops)
	return nil
}

// join announces this start of the node: it is a new incarnation, and every
// partition that it leads gets a new epoch.
func (b *Broker) join(ctx context.Context) error {
	if !b.o.Registered {
		if _, err := b.o.Meta.Init(ctx); err != nil {
			return fmt.Errorf("initialize cluster id: %w", err)
		}
		n := b.o.Node
		n.ID, n.State = b.o.Self, meta.NodeUp
		if _, err := b.propose(ctx, meta.NodeStarted{Node: n}); err != nil {
			return fmt.Errorf("announce node %q: %w", n.ID, err)
		}
	}
	for _, t := range b.Topics() {
		if meta.IsEphemeral(t.Name) && b.holds(t) {
			// it was in the memory of a process that is gone
			_, err := b.propose(ctx, meta.DeleteTopic{Name: t.Name, Incarnation: t.Incarnation})
			if err != nil && !errors.Is(ofThisIncarnation(err), ErrTopicNotFound) {
				return fmt.Errorf("drop ephemeral topic %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// claim takes the data directory over before any topic is opened.
func (n *hosting) claim() error {
	s := n.o.Meta.View()
	n.cluster = s.Cluster().ID
	foreign, err := n.dirs.Claim(n.ledger, s, n.o.Self, n.log)
	n.strays.Add(int64(foreign))
	return err
}

// holds says whether this node holds a replica of a topic.
func (n *hosting) holds(t *meta.Topic) bool {
	return slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return slices.Contains(p.Replicas, n.o.Self) })
}

// openAll opens the replicas that this node holds. What one topic lacks keeps no
// other from being served: it is tried again while the node runs, and health
// names it. An error says that the node itself cannot go on.
func (n *hosting) openAll() error {
	var g errgroup.Group
	g.SetLimit(openTogether)
	for _, t := range n.o.Meta.Topics() {
		g.Go(func() error {
			err := n.converge(t.Name)
			switch {
			case err == nil || errors.Is(err, errQuarantine):
			case n.failed.Load() != nil:
				return fmt.Errorf("topic %q: %w", t.Name, err)
			default:
				n.log.Error("cannot apply metadata to topic; retrying", "topic", t.Name, "error", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// propose changes the metadata.
func (d *directory) propose(ctx context.Context, c meta.Command) (meta.Result, error) {
	if d.exiting.Load() {
		return meta.Result{}, ErrExiting
	}
	began := time.Now()
	r, err := d.o.Meta.Propose(ctx, c)
	d.o.Observer.ObserveRaftCommit(time.Since(began))
	if err == nil {
		d.o.Observer.ObserveChange(c, r)
	}
	return r, err
}

// fail ends the node's work: what it acknowledged so far stands, nothing more
// will be.
func (n *hosting) fail(err error) {
	n.failOnce.Do(func() {
		n.failed.Store(&err)
		n.log.Error("fatal error, node stops", "error", err)
		n.o.Fatal(err)
	})
}

// reportDamage is told of a damaged range: when a log is opened, and whenever a
// consumer is led past it. It is said once.
func (n *shelf) reportDamage(name string, partition int, err *commitlog.CorruptionError) {
	if n.damage.note(commitlog.Damage{Path: err.Path, Position: err.Position, From: err.From, Next: err.Next}) {
		n.log.Error("log is corrupt on disk; affected messages are not delivered",
			"topic", name, "partition", partition, "from", err.From, "next", err.Next, "error", err)
	}
}

// reportSpoiled is told of damage that was met where a log is read for others than
// consumers.
func (n *shelf) reportSpoiled(name string, partition int, err error) {
	if found, ok := errors.AsType[*commitlog.CorruptionError](err); ok {
		n.reportDamage(name, partition, found)
	}
}

// Close hands everything over: consumers are disconnected, what was taken is
// settled and stored, logs are closed so that there is nothing to recover. The
// caller has stopped taking requests.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.Exit()
		b.end()
		b.loops(ErrExiting)
		b.running.close()
		b.closeErr = errors.Join(b.closeTopics(ErrExiting), b.redo.Close())
		b.shifts.sumUp(b.log)
	})
	return b.closeErr
}

func (n *hosting) closeTopics(reason error) error {
	n.topics.close()
	n.isr.close()
	var g errgroup.Group
	for _, h := range n.hostedTopics() {
		n.hosted.Delete(h.name)
		n.byIncarnation.Delete(h.incarnation)
		g.Go(func() error { return n.close(h, reason) })
	}
	err := g.Wait()
	n.parts.close()
	return err
}

// Exit says that the node is about to stop: from now on publishes and changes
// are refused with ErrExiting. Deliveries and their answers go on until Close.
// It returns when the leaders of what this node holds go on without it, or after
// a second; until then other nodes must be able to reach this one.
func (b *Broker) Exit() {
	b.exiting.Store(true)
	b.leaveOnce.Do(b.leave)
}
