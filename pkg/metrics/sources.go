package metrics

import (
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/scrubber"
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
	// Draining reports whether the node is being taken out of service.
	Draining func() bool
	// Placement counts partitions.
	Placement func() operate.Placement
	// Server counts what clients do.
	Server func() Server
	// Logs sums over the partition logs of the node.
	Logs func() host.LogStats
	// Scrubber counts what is read of them to find damage.
	Scrubber func() scrubber.Stats
	// Trash is what the node keeps of deleted topics: how many, and their bytes.
	Trash func() (topics int, bytes int64)
	// TokenEnds returns when the first token ends of those that are valid; zero: none does.
	TokenEnds func() time.Time
	// Disk is the disk that the data is on.
	Disk func() diskspace.State
	// Raft is this node's part in the metadata store.
	Raft func() raftstore.Stats
	// Tolerance is how many voters may fail; negative: so many are missing.
	Tolerance func() int
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
	AuthFailures     map[string]uint64 // by protocol
}

// ConnectionKind tells connections apart.
type ConnectionKind struct {
	Protocol string // tcp or cluster
	Role     string // producer, consumer or peer
}

// Certificate is a TLS certificate in use.
type Certificate struct {
	Usage            string // what it is for: server, cluster
	NotAfter         time.Time
	Reloaded, Failed uint64 // new files that were taken, and that could not be
}
