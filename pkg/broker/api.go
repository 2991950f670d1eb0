package broker

import (
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// AnyPartition lets the broker pick the partition.
const AnyPartition = -1

// Publish is a request to publish messages to one partition of a topic: all of
// them or none.
type Publish struct {
	Topic     string
	Partition int    // AnyPartition: by Key if it is set, else round robin over the writable ones
	Key       []byte // messages of one key go to one partition
	Messages  []topic.Message
	// Done is called exactly once, perhaps before Publish returns, from any
	// goroutine. It must not block and must not call the broker.
	Done func(Receipt)
}

// Receipt is the answer to a Publish: see topic.Receipt.
type Receipt = topic.Receipt

// Subscribe is a request to join a channel.
type Subscribe struct {
	Topic     string
	Channel   string
	Partition int  // AnyPartition: all partitions that this node serves
	Ordered   bool // one message of a partition at a time, in order
	Client    Client
	// MsgTimeout is how long a delivered message may stay unanswered.
	MsgTimeout time.Duration
	// SampleRate from 1 to 99 delivers that percentage of messages and finishes
	// the others; 0 delivers all.
	SampleRate int
	// Wake says that Take may now have something. It is called from any
	// goroutine; it must not block and must not call the broker.
	Wake func()
}

// Client is what the broker wants to know of the connection behind a
// subscription. Stats may be called at any time.
type Client interface {
	ClientStats() ClientStats
	// Disconnect ends the connection with a reason; it does not wait.
	Disconnect(reason error)
	// Unfinished says that a Finish that was taken came to nothing, since the node
	// that it went to did not take it: the message is delivered again. It may be
	// called by any goroutine and does not wait.
	Unfinished(id seq.MessageID, reason error)
}

// ClientStats describes one connection, producer or consumer. The broker fills
// in the counts that belong to a subscription.
type ClientStats struct {
	ClientID, Hostname, UserAgent string
	RemoteAddress                 string
	State                         int // 0 init, 3 subscribed, 4 closing
	ConnectTime                   time.Time
	SampleRate                    int
	Deflate, Snappy               bool
	TLS                           bool
	TLSCipherSuite, TLSVersion    string
	TLSNegotiatedProtocol         string
	TLSMutual                     bool
	Authed                        bool
	AuthIdentity, AuthIdentityURL string
	TopologyZone, TopologyRegion  string
	OutputBufferSize              int
	OutputBufferTimeout           time.Duration
	MsgTimeout                    time.Duration
	DesiredTag                    string
	PubCounts                     map[string]uint64 // messages published, by topic

	// of the subscription
	Ready, InFlight               int64
	Delivered, Finished, Requeued uint64
	TimedOut                      uint64
}

// TopicStats describes a topic over the partitions that this node leads.
type TopicStats struct {
	Name       string
	Ephemeral  bool
	Paused     bool
	Ordered    bool
	Ext        bool
	Depth      int64  // messages that no channel has got yet
	Messages   uint64 // published since the process started
	Bytes      uint64 // of their bodies
	LogBytes   int64  // on disk
	Partitions []PartitionStats
	Channels   []ChannelStats
	// MissingNodes lead partitions of the topic and have not answered: what they have
	// is missing in the sums.
	MissingNodes []string
	// Elsewhere says that the node that was asked leads no partition of the topic, and
	// that the figures are the cluster's: see NodeStats.
	Elsewhere bool
}

// PartitionStats describes one partition of a topic.
type PartitionStats struct {
	Partition    int
	Leader       string
	Epoch        seq.Epoch
	Replicas     []string
	ISR          []string
	LogStart     seq.Offset
	CommittedEnd seq.Offset
	LogEnd       seq.Offset
	Bytes        int64
}

// ChannelStats describes a channel over the partitions that this node leads.
type ChannelStats struct {
	Name       string
	Ephemeral  bool
	Paused     bool
	Ordered    bool
	Depth      int64 // waiting: neither in flight nor deferred
	InFlight   int64
	Deferred   int64
	Messages   uint64 // that came to the channel since the process started
	Delivered  uint64
	Finished   uint64
	Requeued   uint64
	TimedOut   uint64
	OldestAge  time.Duration      // of the oldest unfinished message; 0: none
	Rates      flow.Rates         // of messages that come and are finished
	Latency    *latency.Histogram // from publish to FIN, of late; nil: not kept, see Options.LatencyWindow
	Partitions []ChannelPartitionStats
	Consumers  int           // subscriptions, whether Clients lists them or not
	Clients    []ClientStats // nil unless asked for
}

// ChannelPartitionStats is a channel's place in one partition.
type ChannelPartitionStats struct {
	Partition int
	Leader    string
	Confirmed seq.Offset // everything below is finished
	Lag       int64      // committed end - confirmed
	Spinning  []Spinning // messages that consumers requeue as soon as they get them, the fastest first
}

// Spinning is a message that is delivered and requeued over and over.
type Spinning struct {
	Offset    seq.Offset
	PerSecond float64
}

// PeekState says what a peeked message is to the channel.
type PeekState string

// The states of a message in a channel.
const (
	PeekReady    PeekState = "ready"
	PeekInFlight PeekState = "in_flight"
	PeekDeferred PeekState = "deferred"
	PeekFinished PeekState = "finished"
	PeekStored   PeekState = "stored" // looked at without a channel
)

// Peeked is a message that was looked at and not touched.
type Peeked struct {
	Partition int
	Offset    seq.Offset
	ID        seq.WireID
	Timestamp time.Time
	DeliverAt time.Time
	Attempts  uint16
	State     PeekState
	TraceID   uint64
	Header    []byte
	Body      []byte
}

// NodeInfo describes one node of the cluster.
type NodeInfo struct {
	ID             string
	State          string // up, down or draining
	Silent         bool   // it does not answer the node that was asked
	Voter          bool
	TCPAddress     string
	HTTPAddress    string
	ClusterAddress string
	Zone           string
	Version        string
	Incarnation    uint64
	Hostname       string
	HTTPSAddress   string
	Intent         string // what an operator wants of it: "", drain or decommission
	Leaders        int    // partitions that it leads
	Replicas       int    // partitions that it holds a copy of
}

// ClusterInfo describes the cluster as this node sees it.
type ClusterInfo struct {
	ID         string
	Controller string // the node that leads the metadata; "": none known
	Self       string
	Nodes      []NodeInfo
}

// Health is the cluster's health. Degraded: it serves, with less safety than
// it should have.
type Health struct {
	Healthy  bool
	Degraded bool
	Reasons  []HealthReason
}

// HealthReason is one kind of trouble.
type HealthReason struct {
	Code  string // partitions_offline, disk_full, log_corrupt, nodes_down, …
	Count int
	What  string
}

// Peek asks for messages without touching them.
type Peek struct {
	Topic     string
	Channel   string // "": the log itself
	Partition int    // AnyPartition: all
	From      *seq.Offset
	Max       int
	Bytes     int // none follows the message with which there are so many of bodies and headers; 0: no bound
}

// SeekTo names a place that a channel is moved to: exactly one field is set.
type SeekTo struct {
	Start, End bool
	Offset     *seq.Offset
	Time       time.Time
}

// PartitionDigest is what the replicas of a partition hold below its committed
// end. Digests has an entry for every replica that answered: node to hex.
// Replicas with equal digests hold the same bytes.
type PartitionDigest struct {
	Partition    int
	CommittedEnd seq.Offset
	Digests      map[string]string
	Unreadable   map[string]string // what kept a node from reading its replica, by node
}
