package meta

import (
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// NodeID is the stable name of a node.
type NodeID string

// Incarnation tells a topic from an earlier one of the same name. It is the
// Raft index of the command that created it, so it is never used twice.
type Incarnation uint64

// SyncPolicy says when an append must be on disk.
type SyncPolicy struct {
	// Every: at most this many messages may be acknowledged and not synced.
	// 1 (always): none; 0: only Interval counts.
	Every int `json:"every,omitempty"`
	// Interval: at most this long may an acknowledged message stay unsynced.
	// It counts when Every is not 1.
	Interval time.Duration `json:"interval,omitempty"`
}

// TopicConfig is what an operator chooses about a topic.
type TopicConfig struct {
	Partitions     int           // 1 to seq.MaxPartitions
	Replicas       int           // replication factor
	AutoReplicas   bool          // Replicas was left open: it grows with the cluster, see WantedReplicas
	MinISR         int           // publishes are refused below it
	AutoMinISR     bool          // MinISR was left open: it follows Replicas, see DefaultMinISR
	Sync           SyncPolicy    // when an acknowledged message is on disk
	Ordered        bool          // consumers must take it in order
	Ext            bool          // messages may carry a JSON header
	RetentionAge   time.Duration // finished messages older than this may go; 0: at once
	RetentionBytes int64         // the log is cut to this size, finished or not; 0: no limit
	MaxMessage     int           // largest body in bytes; 0: the node's limit
	DedupWindow    time.Duration // for so long an id of a publisher is stored once; 0: nobody has used ids
	KeyFrom        string        // where in a body the key is, as keys.ParseRule reads it; "": nowhere
	TTL            time.Duration // messages that name none expire after this; 0: they do not
	MaxBytes       int64         // of all partitions together, an equal share each; 0: no limit
	OnFull         OnFull        // what becomes of a publish beyond MaxBytes
	RetentionTrash time.Duration // how long it is kept once deleted; 0: DefaultTrash; NoTrash: it is not
	Trace          string        // which messages are traced, as sampling.ParseRule reads it; "": none
	Channels       policy.Policy // what channels of the topic that leave it open do
}

// OnFull is what becomes of a publish to a topic that has MaxBytes.
type OnFull string

// What becomes of it.
const (
	OnFullReject OnFull = ""            // it is refused
	OnFullDrop   OnFull = "drop-oldest" // the oldest messages go, finished or not
)

// Topic is a topic as every node knows it. Values that State hands out are
// shared and must not be changed.
type Topic struct {
	Name        string
	Incarnation Incarnation
	Config      TopicConfig
	Paused      bool
	// Tightened: it syncs always now and did not before. What it acknowledged then may
	// be on no disk yet, for all that is known here.
	Tightened  bool
	Version    uint64 // the Raft index of the last change
	Partitions []Partition
	Channels   map[string]*Channel
}

// Partition is the placement and leadership of one partition.
type Partition struct {
	Replicas []NodeID // assignment, preferred leader first
	Leader   NodeID   // "": offline
	Epoch    seq.Epoch
	ISR      []NodeID // empty: the last member came back with an empty disk, and only an operator can name a leader
	Version  uint64   // bumps on every change: the compare-and-swap token
	Adding   []NodeID
	Removing []NodeID
	Before   []NodeID  // the replicas before the reassignment in progress, preferred leader first: cancelling goes back to them
	Suspects []Suspect // in-sync replicas that may have lost what they acknowledged
	// Unclean is the epoch of the last leader that an operator elected though it may
	// lack acknowledged records; 0: there was none. Copies that differ from its log
	// and have nothing of that epoch or later are superseded by his decision.
	Unclean seq.Epoch
}

// Channel is a durable channel of a topic.
type Channel struct {
	Name      string
	Order     policy.Order
	Paused    bool
	Skipped   bool
	CreatedAt int64       // ns since 1970, as its creator saw it
	Version   Incarnation // the Raft index of its creation: tells it from an earlier one of the name
	First     bool        // the topic had no channel when it was created: it gets the backlog
	Policy    policy.Policy
	Filter    string // chooses the messages that it gets: see pkg/filter; "": all
}
