package broker

import (
	"time"

	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// AnyPartition lets the broker pick the partition.
const AnyPartition = -1

// Publish is a request to publish messages to a topic. Those that go to one partition
// are stored as a whole or not at all; with no keys and dedup ids, that is all of them.
type Publish struct {
	Topic     string
	Partition int // AnyPartition: by each message's key, else by its dedup id, else round robin over the writable ones
	Messages  []topic.Message
	Route     []byte // partition of messages without a key, instead of their dedup ids; nil: none
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
	Start      topic.Start    // of the channel
	Tag        string         // see topic.ConsumerOptions
	Filter     *header.Filter // likewise
	// Wake says that Take may now have something. It is called from any
	// goroutine; it must not block and must not call the broker.
	Wake func()
}

// Client is what the broker wants to know of the connection behind a
// subscription. Stats may be called at any time.
type Client interface {
	ClientStats() stats.Client
	// Disconnect ends the connection with a reason; it does not wait.
	Disconnect(reason error)
	// Unfinished says that a Finish that was taken came to nothing, since the node
	// that it went to did not take it: the message is delivered again. It may be
	// called by any goroutine and does not wait.
	Unfinished(id seq.MessageID, reason error)
}

// PeekState says what a peeked message is to the channel.
type PeekState string

// The states of a message in a channel.
const (
	PeekReady     PeekState = "ready"
	PeekInFlight  PeekState = "in_flight"
	PeekDeferred  PeekState = "deferred"
	PeekFinished  PeekState = "finished"
	PeekExhausted PeekState = "exhausted" // it has had all its attempts
	PeekStored    PeekState = "stored"    // looked at without a channel
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
	Key       []byte
	Dedup     []byte
	TTL       time.Duration
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

// Peek asks for messages without touching them.
type Peek struct {
	Topic     string
	Channel   string // "": the log itself
	Partition int    // AnyPartition: all
	From      *seq.Offset
	Max       int
	Bytes     int // none follows the message with which there are so many of bodies and headers; 0: no bound
}

// SeekTo names a place that a channel is moved to: exactly one of the first four fields
// is set.
type SeekTo struct {
	Start, End bool
	Offset     *seq.Offset
	Time       time.Time
	Partition  *int // the only one; nil: all
	Forward    bool // a move back is refused
	Unsaved    bool // the position before is not worth saving: the channel is new
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

// What callers of this package know figures and verdicts as.
type (
	// TopicStats are the figures of a topic.
	TopicStats = stats.Topic
	// PartitionStats are those of a partition.
	PartitionStats = stats.Partition
	// ChannelStats are those of a channel.
	ChannelStats = stats.Channel
	// ChannelPartitionStats is a channel's place in one partition.
	ChannelPartitionStats = stats.Place
	// Spinning is a message that is delivered and requeued over and over.
	Spinning = stats.Spinning
	// ClientStats describes one connection.
	ClientStats = stats.Client
	// Health is the verdict on a node or the cluster.
	Health = health.Report
	// HealthReason is one kind of trouble.
	HealthReason = health.Reason
)
