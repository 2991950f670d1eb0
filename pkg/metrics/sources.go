package metrics

import (
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/scrubber"
	"github.com/brokerd/brokerd/pkg/server"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Values are read once per scrape.
type Values struct {
	Ready        bool          // the node serves
	Draining     bool          // it is being taken out of service
	Topics       []stats.Topic // those with partitions that this node leads
	Placement    operate.Placement
	Server       server.Stats
	Unauthorized uint64        // HTTP requests that access control refused
	Logs         host.LogStats // sums over the node's partition logs
	Scrubber     scrubber.Stats
	TrashTopics  int // deleted topics whose data the node keeps
	TrashBytes   int64
	TokenEnds    time.Time // when the first of the valid tokens expires; zero: none expires
	Disk         diskspace.State
	Raft         raftstore.Stats
	Tolerance    int                // voters that may fail; negative: how many are missing
	Nodes        map[string]int     // of the cluster, by state: up, down, draining
	Followers    []operate.Follower // of the partitions that this node leads
	Stalls       map[string]int     // partitions in which something makes no progress, by the code in the health
	Replication  coord.ReplicationStats
	Memory       limit.MemoryUsage // of the clients' memory budget
	Turns        int               // connections that wait for their turn: see limit.Turns
	Uncreated    uint64            // refused creations of topics and channels by clients
	Traces       trace.Stats
	Spans        otlp.Stats
	Peers        []peer.Stats
	Forwarding   broker.ForwardStats
	Certificates []Certificate // TLS certificates in use
	Skew         time.Duration // of the node's wall clock: see age.Agreed
}

// Certificate is a TLS certificate in use.
type Certificate struct {
	Usage            string // its use: server, cluster
	NotAfter         time.Time
	Reloaded, Failed uint64 // numbers of new files that were loaded, and that could not be
}
