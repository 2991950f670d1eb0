package operate

import (
	"time"

	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/seq"
)

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
	Intent         string      // what an operator wants of it: "", drain or decommission
	Leaders        int         // partitions that it leads
	Replicas       int         // partitions that it holds a copy of
	Levels         level.Range // feature levels that its program supports
}

// ClusterInfo describes the cluster as this node sees it.
type ClusterInfo struct {
	ID         string
	Controller string // the node that leads the metadata; "": none known
	Self       string
	Nodes      []NodeInfo
	Level      level.Level // the feature level
	Attainable level.Level // that every node supports
}

// Peek asks for messages without touching them.
type Peek struct {
	Topic     string
	Channel   string // "": the log itself
	Partition int    // AnyPartition: all
	From      *seq.Offset
	Max       int
	Bytes     int // none follows the message with which there are so many of bodies and headers; 0: no bound
	// Filter chooses messages, of which Max and Bytes count those that are chosen: see
	// pkg/filter. It looks at MaxFiltered messages of a partition. "": all are chosen.
	Filter  string
	Letters *LettersOf // only dead letters of a channel, by what Filter may know of them; nil: any message
}

// LettersOf names a channel that has dead letters.
type LettersOf struct{ Topic, Channel string }

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
