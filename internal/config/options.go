package config

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/units"
)

// Options is everything that can be configured of one node. It is a plain
// value: Load makes it, and no code changes it afterwards. Addresses are
// host:port, or the path of a unix socket where the setting says so; an empty
// one is off.
type Options struct {
	Config  string // path of the file that was read; "": none
	NodeID  string
	DataDir string
	Zone    string
	Region  string

	Listen    Listen
	Web       Web
	Advertise Advertise
	Cluster   Cluster
	Limits    Limits
	TLS       TLS
	Auth      Auth
	Access    Access
	Topics    Topics
	Statsd    Statsd
	Latency   Latency
	Tracing   Tracing
	Process   Process

	// LookupdTCPAddresses are the nsqlookupds that this node announces itself to.
	LookupdTCPAddresses []string
}

// Listen is where the node serves. TCP, HTTP and HTTPS may be paths of unix
// sockets. A host name serves on every address that it resolves to.
type Listen struct {
	TCP     string // NSQ protocol
	HTTP    string // nsqd, nsqlookupd and /v1 API
	HTTPS   string // the same over TLS; "": off
	Lookup  string // nsqlookupd API alone; "": off
	Cluster string // node to node; "": off
}

// Web is the access configuration of the HTTP addresses.
type Web struct {
	AllowedHosts []string // names under which the node may be addressed, besides its own
	ConfigFrom   []string // networks that options may be changed from
}

// Advertise is what the node announces to other nodes and clients. An empty
// field follows from Host and the bound port.
type Advertise struct {
	Host    string
	TCP     string
	HTTP    string
	HTTPS   string
	Lookup  string
	Cluster string
}

// Cluster is how the node finds the others.
type Cluster struct {
	Join            []string
	BootstrapExpect int
	ElectionTimeout time.Duration
	Raft            RaftTimeouts
	NodeTimeout     time.Duration
	DiskTimeout     time.Duration
	TLS             ClusterTLS
	SecretFile      string // has the secret that all nodes must have; "": none is required
	JoinTokenFile   string // has the token with which this node joins a cluster; "": none
	Insecure        bool   // neither TLS nor a secret is demanded of nodes on other machines
}

// RaftTimeouts are those of the metadata's Raft group beside the election timeout.
type RaftTimeouts struct {
	Heartbeat time.Duration // 0: as the election timeout
	Lease     time.Duration // 0: as the heartbeat timeout
	Commit    time.Duration
	Apply     time.Duration
}

// HeartbeatTimeout returns how long a follower waits for the leader.
func (c *Cluster) HeartbeatTimeout() time.Duration {
	return cmp.Or(c.Raft.Heartbeat, c.ElectionTimeout)
}

// LeaderLease returns how long the leader continues without contact to a majority.
func (c *Cluster) LeaderLease() time.Duration { return cmp.Or(c.Raft.Lease, c.HeartbeatTimeout()) }

// ClusterTLS is what nodes show each other. All three or none are given.
type ClusterTLS struct {
	CertFile, KeyFile string // PEM; the certificate is for the node's id
	CAFile            string // PEM: what the other nodes' certificates must come from
}

// Limits bound what a client may ask for. The names and defaults are nsqd's.
type Limits struct {
	MaxMsgSize             units.Size
	MaxBodySize            units.Size
	MaxUncommitted         units.Size // of all partitions together; 0: by the memory
	MemoryBudget           units.Size // of the memory that clients make the node hold; 0: derived from the machine's memory
	MsgTimeout             time.Duration
	MaxMsgTimeout          time.Duration
	MaxReqTimeout          time.Duration
	RequeueInMemory        time.Duration // the longest delay of a requeue that is not appended again; 0: all are kept so
	MaxRdyCount            int
	MaxHeartbeatInterval   time.Duration
	MaxOutputBufferSize    units.Size
	MaxOutputBufferTimeout time.Duration
	MinOutputBufferTimeout time.Duration
	OutputBufferTimeout    time.Duration
	MaxChannelConsumers    int // 0: no limit
	MemQueueSize           int // of waiting messages that do not count as backend_depth
	MaxConnections         int // 0: no limit
	MaxOfAddress           int // connections of one address; 0: half of MaxConnections
	MaxPartitions          int // that the node takes; 0: by the memory budget
	CreationBurst          int // topics, each as its partitions, and channels that one address may create at once; 0: no limit
	CreationRate           int // and a second, after that
	Snappy                 bool
	Deflate                bool
	AllowExtCompatible     bool
	MaxDeflateLevel        int
}

// TLS names the certificate of the NSQ and HTTPS listeners. Key material comes
// from files only.
type TLS struct {
	CertFile         string // "": TLS is off
	KeyFile          string
	RootCAFile       string
	ClientAuthPolicy string // "", require or require-verify
	Required         string // false, true or tcp-https (plain HTTP stays open)
	MinVersion       string // tls1.0 to tls1.3
	PlainMetrics     bool   // /metrics needs no TLS, whatever is required
}

// Access is what access control leaves to each node.
type Access struct {
	AnonymousLookup  bool   // /lookup and /nodes need no credentials
	AnonymousMetrics bool   // /metrics likewise
	Recovery         bool   // the first administrator's secret is written though there is one
	AuditFile        string // that the audit log is also written to; "": none
}

// Auth names the servers that decide what an AUTH secret may do.
type Auth struct {
	HTTPAddresses  []string // none: AUTH is off
	RequestMethod  string   // get or post
	ConnectTimeout time.Duration
	RequestTimeout time.Duration
}

// Topics are the defaults of a topic's settings.
type Topics struct {
	AutoCreate     bool
	Partitions     int
	Sync           Sync
	SyncInterval   time.Duration // counts unless Sync.Every is 1
	Retention      time.Duration // of finished messages; 0: they may go at once
	RetentionBytes units.Size    // 0: no limit
	SegmentSize    units.Size
	DiskReserve    units.Size
	CarryAge       time.Duration // where a few unfinished messages keep the log that is older, they are appended again; 0: never
	CarryBytes     units.Size    // likewise by size
	ScrubInterval  time.Duration // in which every stored byte is read once; 0: none is
	CatchUpRate    units.Size    // bytes a second to replicas that are not in sync; 0: adaptive only
}

// Latency selects the recorded latencies from publish to finish.
type Latency struct {
	Percentiles []string // of all messages of a window, from 0 to 1; none: nothing is kept
	Window      time.Duration
}

// Quantiles returns the percentiles in descending order. Invalid ones, in a Latency that was not
// checked, are omitted.
func (l *Latency) Quantiles() []float64 {
	var all []float64
	for _, text := range l.Percentiles {
		if q, ok := quantile(text); ok {
			all = append(all, q)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return slices.Compact(all)
}

// Kept returns of which time latencies are kept; 0: none are.
func (l *Latency) Kept() time.Duration {
	if len(l.Percentiles) == 0 {
		return 0
	}
	return l.Window
}

func quantile(text string) (float64, bool) {
	q, err := strconv.ParseFloat(text, 64)
	return q, err == nil && q > 0 && q <= 1
}

// Tracing configures which events of messages are stored and reported.
type Tracing struct {
	Bytes        units.Size    // kept of the events of traced messages
	SlowPublish  time.Duration // slower publishes are logged; 0: none are
	SlowDelivery time.Duration // likewise deliveries, since the publish
	OTLPEndpoint string        // of the collector that spans are sent to; "": none
	OTLPHeaders  string        // file of the headers that are sent with them; "": none
}

// Statsd is where statistics are pushed to, over UDP. The names and defaults are
// nsqd's.
type Statsd struct {
	Address          string // "": nowhere
	Prefix           string
	Interval         time.Duration
	MemStats         bool
	PacketSize       units.Size
	ExcludeEphemeral bool
}

// Process is how the process behaves towards its surroundings.
type Process struct {
	DrainTimeout time.Duration
	// MetricsObjects is how many topics and channels have series of their own.
	MetricsObjects int
	Watchdog       bool
	Pprof          bool
	LogLevel       string // debug, info, warn or error
	LogFormat      string // auto, text, json or journal
}
