package metrics

import (
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Sources are where the numbers come from. Each function is called once a
// scrape, perhaps by several scrapes at a time, and should not wait for
// anything. The metrics of a nil function are not exported.
type Sources struct {
	// Topics describes the topics with partitions that this node leads.
	Topics func() []stats.Topic
	// Ready says what keeps the node from serving; empty: nothing.
	Ready func() []health.Reason
	// Draining says whether the node is being taken out of service.
	Draining func() bool
	// Placement counts partitions.
	Placement func() Placement
	// Server counts what clients do.
	Server func() Server
	// Logs sums over the partition logs of the node.
	Logs func() Logs
	// Trash is what the node keeps of deleted topics: how many, and their bytes.
	Trash func() (topics int, bytes int64)
	// TokenEnds returns when the first token ends of those that are valid; zero: none does.
	TokenEnds func() time.Time
	// Disk is the disk that the data is on.
	Disk func() Disk
	// Raft is the metadata store.
	Raft func() Raft
	// Nodes counts the nodes of the cluster by state: up, down, draining.
	Nodes func() map[string]int
	// Lags says how far the followers of the partitions that this node leads are,
	// by node.
	Lags func() []operate.ReplicaLag
	// Stalls counts the partitions in which something does not progress, by what the
	// health calls it.
	Stalls func() map[string]int
	// Replication tells what this node sends to replicas.
	Replication func() coord.ReplicationStats
	// Memory tells how the budget is used of what clients make the node hold.
	Memory func() limit.MemoryUsage
	// Turns counts the connections that wait for their turn: see limit.Turns.
	Turns func() int
	// Uncreated counts the topics and channels that clients were refused to create.
	Uncreated func() uint64
	// Traces tells what is noted of traced messages.
	Traces func() trace.Stats
	// Spans tells what is sent of traced messages to an OpenTelemetry collector.
	Spans func() otlp.Stats
	// Peers is the traffic with other nodes.
	Peers func() []peer.Stats
	// Forwarding counts what is done for clients through other nodes.
	Forwarding func() broker.ForwardStats
	// Certificates lists the TLS certificates in use.
	Certificates func() []Certificate
}

// Placement counts the partitions of the cluster as this node sees them, and
// those that it has itself.
type Placement struct {
	Partitions         int
	Offline            int // without a leader
	UnderReplicated    int // with a replica that is not in sync
	UnderMinISR        int // refusing publishes for it
	NonPreferredLeader int
	Moving             int
	Hosted             int // with a replica here
	Led                int // with the leader here
}

// Server counts connections and commands. Counts grow from the start of the
// process; the keys of the maps are fixed sets of words.
type Server struct {
	Connections      map[ConnectionKind]int // open now
	TLS              int                    // of them, those of clients over TLS
	Accepted         map[string]uint64      // by protocol
	ConnectionErrors map[string]uint64      // by reason
	BytesIn          uint64
	BytesOut         uint64
	Commands         map[string]uint64 // by command
	CommandErrors    map[string]uint64 // by error code
	AuthFailures     map[string]uint64 // by reason
}

// ConnectionKind tells connections apart.
type ConnectionKind struct {
	Protocol string // tcp or cluster
	Role     string // producer, consumer or peer
}

// Logs sums over logs. Counts grow from the start of the process.
type Logs struct {
	Segments       int
	Bytes          int64
	Unflushed      int64         // records that are appended and not yet synced
	Recovery       time.Duration // that opening them took
	CorruptRecords uint64        // damaged ranges that were ever found
	Damaged        int           // damaged ranges in the logs that are held now
	Scrubbed       uint64        // bytes that were read to find damage
	ScrubOldest    time.Duration // since the replica was read in full that was read least recently
	TruncatedBytes uint64
	Appends        uint64 // batches
	Records        uint64 // in them
	AppendedBytes  uint64
	Syncs          uint64
}

// Watermark is how near the disk is to its reserve.
type Watermark int

// The watermarks.
const (
	WatermarkOK       Watermark = iota
	WatermarkWarning            // free space is getting low
	WatermarkRefusing           // publishes are refused
)

// Disk describes a disk in bytes.
type Disk struct {
	Free, Total, Reserved int64
	Watermark             Watermark
}

// Raft describes the metadata store on this node.
type Raft struct {
	IsLeader         bool
	Term             uint64
	CommitIndex      uint64
	AppliedIndex     uint64
	SnapshotIndex    uint64
	Voters           int
	FailureTolerance int           // voters that may be lost; negative: so many are missing
	LastContact      time.Duration // since the leader was heard of; negative: never
	StoreBytes       int64
	StoreFree        int64         // of them, in pages that hold nothing
	Stalled          time.Duration // for how long a write to its disk has been under way
	LeaderChanges    uint64        // since the start
	Elections        uint64        // that this node stood for since the start
	Applies          Timing        // batches of commands applied
	Writes           Timing        // writes to its log, each synced
	Late             time.Duration // how late this process runs, or how slow its disk is
}

// Certificate is a TLS certificate in use.
type Certificate struct {
	Usage            string // what it is for: server, cluster
	NotAfter         time.Time
	Reloaded, Failed uint64 // new files that were taken, and that could not be
}

// Timing is how often something happened since the start, and how long it took in all.
type Timing struct {
	Count uint64
	Total time.Duration
}
