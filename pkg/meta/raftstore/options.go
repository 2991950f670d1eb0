package raftstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Defaults of Options.
const (
	DefaultHeartbeatTimeout  = 500 * time.Millisecond
	DefaultElectionTimeout   = 500 * time.Millisecond
	DefaultCommitTimeout     = 500 * time.Millisecond
	DefaultApplyTimeout      = 5 * time.Second
	snapshotInterval         = time.Minute // how often the size of the log is checked
	defaultSnapshotThreshold = 4096
	defaultTrailingLogs      = 4096
	defaultReserveBytes      = 16 << 20
)

// Fixed settings.
const (
	snapshotsRetained = 3
	logCacheEntries   = 64 // commands kept in memory between being stored and being applied or sent
	fileLockTimeout   = time.Second
	observerBuffer    = 64

	acceptRetry          = 50 * time.Millisecond
	pooledConns          = 3   // kept open to each node
	rpcTimeoutHeartbeats = 4   // heartbeat timeouts after which a silent connection is closed
	heartbeatsPerTimeout = 5   // number of heartbeats that a leader sends to each node
	leaderTimeouts       = 2   // heartbeat timeouts in one of a leader's configuration: see Options.pace
	retriesPerHeartbeat  = 10  // retries of a command that found no leader
	recentResults        = 256 // kept for commands that were forwarded to the leader
)

// Options configure a Store. NodeID is required, and Dir unless InMemory.
type Options struct {
	// Dir holds the log, the snapshots and the reserve. It is created if it does not exist, and
	// belongs only to the store.
	Dir string
	// NodeID is the stable name of this node. A Dir of another node is refused.
	NodeID meta.NodeID
	// Address is dialled by other voters; "": the NodeID, which suffices for a cluster of one.
	Address string
	// Stream connects the nodes of the Raft group; nil: a cluster of one that will never grow while
	// it runs.
	Stream *Stream
	// Forward sends commands to the leader; nil: Propose works on the leader only.
	Forward Forward
	// Ask fetches the leader's Standing; nil: a node that does not lead is never in contact with
	// the quorum.
	Ask Ask
	// DiskStalled, if set, reports whether another disk of this node does not respond. While it does
	// not, this node sends nothing as the leader, as while its own writes take too long.
	DiskStalled func() bool
	// Wall returns the time at a moment that was just read, in ns since 1970, with which commands are stamped;
	// nil: the system's.
	Wall func(now time.Time) int64
	// Bootstrap creates a new cluster, with this node as its only voter, if Dir holds none.
	Bootstrap bool
	// Logger receives the log of the Raft library; optional.
	Logger *slog.Logger
	// InMemory keeps everything in memory, for tests.
	InMemory bool

	// HeartbeatTimeout is how long a follower waits for its leader before it requests votes.
	// ElectionTimeout is how long it waits for votes, at least HeartbeatTimeout. LeaderLease is how
	// long a leader continues without contact to a majority, at most HeartbeatTimeout, which is the
	// default. A cluster of one waits for none of them. A process that runs late, or whose disk is
	// slow, waits longer: see lateness.
	HeartbeatTimeout, ElectionTimeout, LeaderLease time.Duration
	// CommitTimeout is the library's: a leader without commands sends each follower its commit
	// index within once to twice this time. Followers learn of a command earlier, by the barrier
	// after it (see announcer); this bounds how long they wait if that barrier is lost.
	CommitTimeout time.Duration
	// ApplyTimeout bounds how long a command waits while the store is busy or no leader is
	// known. Then it is refused.
	ApplyTimeout time.Duration
	// SnapshotThreshold is the number of commands after which a new snapshot is made, TrailingLogs
	// how many of them stay for followers that lag.
	SnapshotThreshold, TrailingLogs uint64
	// ReserveBytes of disk are reserved, at most a fortieth of the disk, and released when
	// the disk is full, so that consensus and commands that free space can continue; -1:
	// none.
	ReserveBytes int64
}

func (o Options) withDefaults() Options {
	fill(&o.Address, string(o.NodeID))
	fill(&o.Logger, slog.New(slog.DiscardHandler))
	fill(&o.HeartbeatTimeout, DefaultHeartbeatTimeout)
	fill(&o.ElectionTimeout, DefaultElectionTimeout)
	fill(&o.LeaderLease, o.HeartbeatTimeout)
	fill(&o.CommitTimeout, DefaultCommitTimeout)
	fill(&o.ApplyTimeout, DefaultApplyTimeout)
	fill(&o.SnapshotThreshold, defaultSnapshotThreshold)
	fill(&o.TrailingLogs, defaultTrailingLogs)
	fill(&o.ReserveBytes, defaultReserveBytes)
	if o.Wall == nil {
		o.Wall = age.System
	}
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	if !meta.ValidNodeID(o.NodeID) {
		return fmt.Errorf("%w: node %q", failure.InvalidName, o.NodeID)
	}
	if o.Dir == "" && !o.InMemory {
		return errors.New("metadata directory not set")
	}
	if o.Stream != nil && (o.Stream.Listener == nil || o.Stream.Dial == nil) {
		return errors.New("metadata stream needs a listener and a dialer")
	}
	return nil
}

// distributed reports whether there can be other nodes.
func (o *Options) distributed() bool { return o.Stream != nil }

// remembered is the number of results kept.
func (o *Options) remembered() int {
	if o.Forward == nil {
		return 0
	}
	return recentResults
}

func (o *Options) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.NodeID)
	c.HeartbeatTimeout = o.HeartbeatTimeout
	c.ElectionTimeout = o.ElectionTimeout
	c.LeaderLeaseTimeout = o.LeaderLease
	c.CommitTimeout = o.CommitTimeout
	c.SnapshotInterval = snapshotInterval
	c.SnapshotThreshold = o.SnapshotThreshold
	c.TrailingLogs = o.TrailingLogs
	c.BatchApplyCh = true
	c.NoLegacyTelemetry = true
	c.ShutdownOnRemove = true
	c.Logger = newBridge(o.Logger)
	return c
}

// heartbeats returns the time between two heartbeats of a leader.
func (o *Options) heartbeats() time.Duration { return o.HeartbeatTimeout / heartbeatsPerTimeout }
