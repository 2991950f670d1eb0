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

// Sources provide the values. Each function is called once per scrape, possibly
// by several scrapes concurrently, and should not block. The metrics of a nil
// function are not exported.
type Sources struct {
	// Topics returns the topics with partitions that this node leads.
	Topics func() []stats.Topic
	// Ready returns the reasons that prevent the node from serving; empty:
	// none.
	Ready func() []health.Reason
	// Draining reports whether the node is being taken out of service.
	Draining func() bool
	// Placement counts partitions.
	Placement func() operate.Placement
	// Server returns the counters of client connections and commands.
	Server func() Server
	// Logs returns sums over the partition logs of the node.
	Logs func() host.LogStats
	// Scrubber returns the progress of scrubbing these logs.
	Scrubber func() scrubber.Stats
	// Trash returns the number and bytes of deleted topics whose data the node
	// keeps.
	Trash func() (topics int, bytes int64)
	// TokenEnds returns when the first of the valid tokens expires; zero: none expires.
	TokenEnds func() time.Time
	// Disk returns the state of the data directory's disk.
	Disk func() diskspace.State
	// Raft returns the statistics of this node's metadata store.
	Raft func() raftstore.Stats
	// Tolerance returns how many voters may fail; negative: how many are
	// missing.
	Tolerance func() int
	// Nodes counts the nodes of the cluster by state: up, down, draining.
	Nodes func() map[string]int
	// Lags returns the lag of the followers of the partitions that this node
	// leads, by node.
	Lags func() []operate.ReplicaLag
	// Stalls counts the partitions in which something makes no progress, by the code
	// in the health.
	Stalls func() map[string]int
	// Replication returns the statistics of what this node sends to replicas.
	Replication func() coord.ReplicationStats
	// Memory returns the usage of the clients' memory budget.
	Memory func() limit.MemoryUsage
	// Turns counts the connections that wait for their turn: see limit.Turns.
	Turns func() int
	// Uncreated counts the refused creations of topics and channels by clients.
	Uncreated func() uint64
	// Traces returns the statistics of the events of traced messages.
	Traces func() trace.Stats
	// Spans returns the statistics of the spans sent to an OpenTelemetry
	// collector.
	Spans func() otlp.Stats
	// Peers returns the traffic with other nodes.
	Peers func() []peer.Stats
	// Forwarding returns the statistics of publishes and subscriptions through
	// other nodes.
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

// ConnectionKind classifies connections.
type ConnectionKind struct {
	Protocol string // tcp or cluster
	Role     string // producer, consumer or peer
}

// Certificate is a TLS certificate in use.
type Certificate struct {
	Usage            string // its use: server, cluster
	NotAfter         time.Time
	Reloaded, Failed uint64 // numbers of new files that were loaded, and that could not be
}
