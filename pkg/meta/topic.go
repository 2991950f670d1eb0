package meta

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// NodeID is the stable name of a node.
type NodeID string

// Incarnation distinguishes a topic from an earlier one with the same name. It is the Raft index of
// the command that created it, so it is never reused.
type Incarnation uint64

// SyncPolicy defines when an append must be on disk.
type SyncPolicy struct {
	// Every is the maximum number of acknowledged, unsynced messages. 1 (always): none; 0: only
	// Interval applies.
	Every int `json:"every,omitempty"`
	// Interval is the maximum time for which an acknowledged message may stay unsynced. It applies
	// if Every is not 1.
	Interval time.Duration `json:"interval,omitempty"`
}

// TopicConfig is the configuration of a topic. Its durations are text in JSON: see MarshalJSON.
type TopicConfig struct {
	Partitions     int           `json:"partitions"`              // 1 to seq.MaxPartitions
	Replicas       int           `json:"replicas"`                // replication factor
	AutoReplicas   bool          `json:"auto_replicas,omitempty"` // Replicas was left open: it grows with the cluster, see WantedReplicas
	MinISR         int           `json:"min_isr"`                 // publishes are refused below it
	AutoMinISR     bool          `json:"auto_min_isr,omitempty"`  // MinISR was left open: it follows Replicas, see DefaultMinISR
	Sync           SyncPolicy    `json:"sync"`                    // when an acknowledged message is on disk
	Ordered        bool          `json:"ordered"`                 // consumers must consume it in order
	Ext            bool          `json:"ext"`                     // messages may carry a JSON header
	RetentionAge   time.Duration `json:"-"`                       // finished messages older than this may be dropped; 0: at once
	RetentionBytes int64         `json:"retention_bytes"`         // the log is reduced to this size, finished or not; 0: no limit
	MaxMessage     int           `json:"max_message"`             // largest body in bytes; 0: the node's limit
	DedupWindow    time.Duration `json:"-"`                       // time within which a publisher's id is stored once; 0: no publisher has used ids
	KeyFrom        string        `json:"key_from,omitempty"`      // where in a body the key is, in the form of keys.ParseRule; "": nowhere
	TTL            time.Duration `json:"-"`                       // messages without their own expire after this; 0: they do not
	MaxBytes       int64         `json:"max_bytes,omitempty"`     // of all partitions together, an equal share each; 0: no limit
	OnFull         OnFull        `json:"on_full,omitempty"`       // what happens to a publish beyond MaxBytes
	RetentionTrash time.Duration `json:"-"`                       // how long a deleted topic is kept; 0: DefaultTrash; NoTrash: not at all
	Trace          string        `json:"trace,omitempty"`         // which messages are traced, as sampling.ParseRule reads it; "": none
	Channels       policy.Policy `json:"channel_policy,omitzero"` // defaults for channels of the topic
}

// OnFull is what happens to a publish beyond MaxBytes.
type OnFull string

// The values of OnFull.
const (
	OnFullReject OnFull = ""            // it is refused
	OnFullDrop   OnFull = "drop-oldest" // the oldest messages are dropped, finished or not
)

// Topic is a topic in the metadata. Values returned by State are shared and must not be changed.
type Topic struct {
	Name        string
	Incarnation Incarnation
	Config      TopicConfig
	Paused      bool
	// Tightened: it syncs always now and did not before. Messages acknowledged then may not be on
	// any disk yet.
	Tightened  bool
	Version    uint64 // the Raft index of the last change
	Partitions []Partition
	Channels   map[string]*Channel
}

// PartitionID identifies a partition.
type PartitionID struct {
	Topic       string
	Incarnation Incarnation
	Partition   int
}

// Of returns the partition in the metadata of its topic, or nil.
func (id PartitionID) Of(t *Topic) *Partition {
	if t == nil || t.Incarnation != id.Incarnation || id.Partition >= len(t.Partitions) {
		return nil
	}
	return &t.Partitions[id.Partition]
}

// Partition is the placement and leadership of one partition.
type Partition struct {
	Replicas []NodeID  `json:"replicas"` // assignment, preferred leader first
	Leader   NodeID    `json:"leader"`   // "" if offline
	Epoch    seq.Epoch `json:"epoch"`
	ISR      []NodeID  `json:"isr"`     // empty: the last member returned with an empty disk, and only an operator can name a leader
	Version  uint64    `json:"version"` // increases with every change: the compare-and-swap token
	Adding   []NodeID  `json:"adding,omitempty"`
	Removing []NodeID  `json:"removing,omitempty"`
	Before   []NodeID  `json:"before,omitempty"`   // the replicas before the reassignment in progress, preferred leader first, restored by a cancel
	Suspects []Suspect `json:"suspects,omitempty"` // in-sync replicas that may have lost acknowledged records
	// Unclean is the epoch of the last leader that an operator elected although it may lack
	// acknowledged records; 0: none. That decision supersedes copies that differ from its log and
	// have nothing of that epoch or later.
	Unclean seq.Epoch `json:"unclean,omitempty"`
}

// Channel is a durable channel of a topic.
type Channel struct {
	Name      string        `json:"name"`
	Order     policy.Order  `json:"order,omitempty"`
	Paused    bool          `json:"paused,omitempty"`
	Skipped   bool          `json:"skipped,omitempty"`
	CreatedAt int64         `json:"created_at"`      // ns since 1970, by its creator's clock
	Version   Incarnation   `json:"version"`         // the Raft index of its creation: distinguishes it from an earlier one with the same name
	First     bool          `json:"first,omitempty"` // the topic had no channel when it was created: it gets the backlog
	Policy    policy.Policy `json:"policy,omitzero"`
	Filter    string        `json:"filter,omitempty"` // chooses the messages that it gets: see pkg/filter; "": all
	// Former are the versions of the channels with the name, deleted since, as which this one was restored,
	// sorted, at most maxFormer: messages addressed to those are for this one too.
	Former []Incarnation `json:"former,omitempty"`
}

// HasVersion reports whether messages that are addressed to a version of a channel are for one of the topic's.
func (t *Topic) HasVersion(version uint64) bool {
	for _, c := range t.Channels {
		if uint64(c.Version) == version || slices.Contains(c.Former, Incarnation(version)) {
			return true
		}
	}
	return false
}

// FormerVersions returns Former as numbers, for packages that do not know the metadata.
func (c *Channel) FormerVersions() []uint64 {
	all := make([]uint64, len(c.Former))
	for i, v := range c.Former {
		all[i] = uint64(v)
	}
	return all
}
