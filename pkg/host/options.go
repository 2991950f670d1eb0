package host

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/trace"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Defaults of Options.
const (
	checkpointInterval       = 200 * time.Millisecond // shortest time between two stores of channels' positions
	DefaultTickInterval      = 25 * time.Millisecond
	DefaultRetentionInterval = 10 * time.Second
	DefaultDiskInterval      = 200 * time.Millisecond
	DefaultDiskReserve       = 256 << 20
	defaultEphemeralBytes    = 64 << 20
	DefaultReplicaLag        = 2 * time.Second
	DefaultPublishTimeout    = 5 * time.Second
	DefaultLease             = time.Second
	DefaultScrubInterval     = 7 * 24 * time.Hour
)

// Bounds of the memory for recent appends, kept for consumers and followers: a share of the
// client memory budget for all logs together.
const (
	tailPart   = 8
	leastTails = 8 << 20
	mostTails  = 128 << 20
)

// openTogether is how many partitions are opened, changed or closed at a time.
const openTogether = 16

// Options configure how a node manages its replicas. The zero value of a number means its default.
type Options struct {
	Self    meta.NodeID
	FS      vfs.FS
	DataDir string
	Redo    redo.Options // of the journal for many logs; the node sets its directories
	Meta    *raftstore.Store
	Calls   forward.Caller // to other nodes; zero: this node is alone
	Peers   coord.Peers    // how its replicas reach others; nil: this node is alone
	Node    meta.Node      // how this node announces itself
	// Registered confirms that this start of the node was registered and that Meta is at least
	// at that index.
	Registered bool
	Log        commitlog.Options
	Logger     *slog.Logger
	Observer   Observer // receives statistics
	// Exhausted is called for a channel with messages that used up their attempts.
	Exhausted func(deadletter.Source)
	// Fatal is called once, without waiting, when this node cannot continue: a log failed, and none
	// of its acknowledgements could be trusted any longer.
	Fatal func(error)

	EphemeralBytes    int64         // memory that a partition of an ephemeral topic may use; beyond it the oldest messages are dropped
	DiskReserve       uint64        // publishes are refused while less is free; at most a twentieth of the disk counts
	TickInterval      time.Duration // precision of timeouts and deferrals
	RetentionInterval time.Duration
	DiskInterval      time.Duration
	ReplicaLag        time.Duration // a replica that lags for longer leaves the in-sync set
	PublishTimeout    time.Duration // a message that is not committed by then is answered as uncertain
	UncommittedBytes  int64         // of all partitions that this node leads; beyond it publishers wait or are refused
	Memory            *limit.Memory // for everything that clients make the node hold; nil: no limit
	Lease             time.Duration // without contact to a quorum for longer, nothing is delivered
	// ScrubInterval is the time in which every stored byte is read once to find damage. Negative:
	// no scrubbing.
	ScrubInterval time.Duration
	CatchUpRate   int64            // maximum bytes per second to replicas that are not in sync; 0: no maximum
	Moves         topic.MovePolicy // which messages are appended again; the host sets its Room
	Trace         *trace.Store     // records events of traced messages; nil: none are recorded
	LatencyWindow time.Duration    // time over which channels keep latencies until the finish; 0: they keep none
	// WallClock returns the wall clock's time at a moment that was just read, in ns since 1970. It
	// stamps messages and determines the age of stored data. nil: the system's. Delays and timeouts
	// do not depend on it.
	WallClock func(now time.Time) int64
}

func (o Options) withDefaults() Options {
	o.EphemeralBytes = cmp.Or(o.EphemeralBytes, defaultEphemeralBytes)
	o.DiskReserve = cmp.Or(o.DiskReserve, DefaultDiskReserve)
	o.TickInterval = cmp.Or(o.TickInterval, DefaultTickInterval)
	o.RetentionInterval = cmp.Or(o.RetentionInterval, DefaultRetentionInterval)
	o.DiskInterval = cmp.Or(o.DiskInterval, DefaultDiskInterval)
	o.ReplicaLag = cmp.Or(o.ReplicaLag, DefaultReplicaLag)
	o.PublishTimeout = cmp.Or(o.PublishTimeout, DefaultPublishTimeout)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.ScrubInterval = cmp.Or(o.ScrubInterval, DefaultScrubInterval)
	o.UncommittedBytes = cmp.Or(o.UncommittedBytes, coord.DefaultUncommittedBytes)
	if o.WallClock == nil {
		o.WallClock = age.System
	}
	if o.Log.Buffers == nil {
		o.Log.Buffers = new(commitlog.Buffers)
	}
	if o.Log.Tails == nil {
		o.Log.Tails = commitlog.NewTails(min(max(o.Memory.Usage().Limit/tailPart, leastTails), mostTails))
	}
	if o.Log.Cache == nil {
		o.Log.Cache = commitlog.NewCache(o.Memory)
	}
	return o
}
