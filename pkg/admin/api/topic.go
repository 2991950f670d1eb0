package api

import (
	"maps"
	"slices"
	"time"
)

// The treatment of publishes to a topic that has reached MaxBytes.
const (
	TraceOff     = "off"         // no message is traced
	OnFullReject = "reject"      // it is refused with failure.Full
	OnFullDrop   = "drop-oldest" // the oldest messages go, finished or not
)

// Config is the configuration of a topic.
type Config struct {
	Partitions         int      `json:"partitions"`
	Replicas           int      `json:"replicas"`
	AutoReplicas       bool     `json:"auto_replicas"` // no number was requested: up to three as nodes join
	MinISR             int      `json:"min_isr"`       // publishes are refused below it
	AutoMinISR         bool     `json:"auto_min_isr"`  // no number was requested: it follows the replicas
	Sync               Sync     `json:"sync"`          // when an acknowledged message is on disk
	SyncInterval       Duration `json:"sync_interval"` // counts unless sync is always
	SyncIntervalMS     int64    `json:"sync_interval_ms"`
	Ordered            bool     `json:"ordered"`   // channels deliver in order
	Ext                bool     `json:"ext"`       // messages may carry a JSON header
	Retention          Duration `json:"retention"` // finished messages older than this may go; 0s: at once
	RetentionMS        int64    `json:"retention_ms"`
	RetentionBytes     int64    `json:"retention_bytes"`   // the log is cut to this, finished or not; 0: no limit
	MaxMessageBytes    int      `json:"max_message_bytes"` // largest body, at most the node's max-msg-size; 0: that
	DedupWindow        Duration `json:"dedup_window"`      // how long a dedup id is stored once; 0s: no id was used yet
	DedupWindowMS      int64    `json:"dedup_window_ms"`
	KeyFrom            string   `json:"key_from"` // where in a body its key is: json:/POINTER or prefix:C; "": nowhere
	TTL                Duration `json:"ttl"`      // messages that name none expire after this; 0s: they do not
	TTLMS              int64    `json:"ttl_ms"`
	MaxBytes           int64    `json:"max_bytes"`            // of the logs, each partition an equal share; 0: no limit
	OnFull             string   `json:"on_full"`              // what happens to publishes beyond that
	Trace              string   `json:"trace"`                // which messages are traced: off, on, 1/N, id:ID, with channel:NAME only there
	AutoRetentionTrash bool     `json:"auto_retention_trash"` // no time was requested: the default
	RetentionTrash     Duration `json:"retention_trash"`      // how long it can be restored once it is deleted; 0s: it cannot
	RetentionTrashMS   int64    `json:"retention_trash_ms"`
	// ChannelPolicy is the default policy of the topic's channels; absent means the cluster's
	// defaults.
	ChannelPolicy *PolicyPatch `json:"channel_policy,omitempty"`
}

// ConfigPatch changes settings: nil fields keep their value, or get the default in a new topic.
// In an existing topic, Partitions changes by AddPartitions only, and Ordered and Ext never; a
// change of Replicas adds or removes replicas a few partitions at a time, and repeating the
// patch continues with the rest.
type ConfigPatch struct {
	Partitions       *int         `json:"partitions,omitempty"`
	Replicas         *int         `json:"replicas,omitempty"`
	MinISR           *int         `json:"min_isr,omitempty"`
	Sync             *Sync        `json:"sync,omitempty"`
	SyncInterval     *Duration    `json:"sync_interval,omitempty"`
	SyncIntervalMS   *int64       `json:"sync_interval_ms,omitempty"` // the same in milliseconds
	Ordered          *bool        `json:"ordered,omitempty"`
	Ext              *bool        `json:"ext,omitempty"`
	Retention        *Duration    `json:"retention,omitempty"`
	RetentionMS      *int64       `json:"retention_ms,omitempty"` // the same in milliseconds
	RetentionBytes   *int64       `json:"retention_bytes,omitempty"`
	MaxMessageBytes  *int         `json:"max_message_bytes,omitempty"`
	DedupWindow      *Duration    `json:"dedup_window,omitempty"`
	DedupWindowMS    *int64       `json:"dedup_window_ms,omitempty"` // the same in milliseconds
	KeyFrom          *string      `json:"key_from,omitempty"`
	TTL              *Duration    `json:"ttl,omitempty"`
	TTLMS            *int64       `json:"ttl_ms,omitempty"` // the same in milliseconds
	RetentionTrash   *Duration    `json:"retention_trash,omitempty"`
	RetentionTrashMS *int64       `json:"retention_trash_ms,omitempty"` // the same in milliseconds
	MaxBytes         *int64       `json:"max_bytes,omitempty"`
	OnFull           *string      `json:"on_full,omitempty"`
	Trace            *string      `json:"trace,omitempty"`
	ChannelPolicy    *PolicyPatch `json:"channel_policy,omitempty"`
}

// CreateTopic is the request to create a topic.
type CreateTopic struct {
	Name   string      `json:"name"`
	Config ConfigPatch `json:"config"`
	DryRun bool        `json:"dry_run,omitempty"` // only return the topic that would be created
	// Channels are to be created in the topic: they are checked, with DryRun only.
	Channels []CreateChannel `json:"channels,omitempty"`
}

// AddPartitions raises the number of partitions of a topic.
type AddPartitions struct {
	Partitions int  `json:"partitions"`        // in total
	DryRun     bool `json:"dry_run,omitempty"` // only return the topic that would be left
}

// Topic describes a topic, its partitions and its channels.
type Topic struct {
	Name        string `json:"name"`
	Incarnation uint64 `json:"incarnation"` // distinguishes it from earlier and later topics of the name
	Config      Config `json:"config"`
	// FirstID is the id of the first message of partition 0, as 16 hexadecimal digits. Add 2^50
	// per partition and 1 per message for any other.
	FirstID       string `json:"first_id"`
	Paused        bool   `json:"paused"`
	Ephemeral     bool   `json:"ephemeral"`
	Depth         int64  `json:"depth"`          // messages that no channel has got yet
	MessagesTotal uint64 `json:"messages_total"` // published, since the present leaders lead, as all totals
	BytesTotal    uint64 `json:"bytes_total"`    // of their bodies
	Bytes         int64  `json:"bytes"`          // on disk
	// DuplicatesTotal counts duplicates not stored because of their dedup ids, RefusedTotal
	// messages refused because of max_bytes, and DroppedTotal messages deleted because of it
	// although a channel had not finished them.
	DuplicatesTotal uint64 `json:"duplicates_total"`
	RefusedTotal    uint64 `json:"refused_total"`
	DroppedTotal    uint64 `json:"dropped_total"`
	// FullSince is from when on publishes are refused because of max_bytes; nil: none was within the last minute.
	FullSince *time.Time `json:"full_since,omitempty"`
	// RefusedSize is how many bytes the publish would have taken that was refused so last.
	RefusedSize int64            `json:"refused_size,omitempty"`
	Partitions  []Partition      `json:"partitions"` // by number
	Channels    []ChannelSummary `json:"channels"`   // by name
	// MessageLimit is the size in bytes of the largest message that the topic and every node take; only
	// in the answer of a dry run.
	MessageLimit int `json:"message_limit,omitempty"`
	// MissingNodes lead partitions of the topic but did not answer; the counts of the topic and
	// its channels do not include them.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// TopicList is every topic, by name.
type TopicList struct {
	Topics       []Topic  `json:"topics"`
	MissingNodes []string `json:"missing_nodes,omitempty"` // of any topic
}

// Partition is the placement and state of one partition. Ends are exclusive: one past the last
// message.
type Partition struct {
	Topic        string   `json:"topic,omitempty"` // set in a PartitionList only
	Partition    int      `json:"partition"`
	Leader       string   `json:"leader"` // "": none, the partition is offline
	Epoch        uint64   `json:"epoch"`
	Replicas     []string `json:"replicas"` // the preferred leader first
	ISR          []string `json:"isr"`      // in sync
	LogStart     uint64   `json:"log_start"`
	CommittedEnd uint64   `json:"committed_end"` // also the number of messages ever stored
	LogEnd       uint64   `json:"log_end"`
	Bytes        int64    `json:"bytes"`              // on the leader's disk
	Adding       []string `json:"adding,omitempty"`   // replicas being added
	Removing     []string `json:"removing,omitempty"` // replicas that go once those are in sync
	// MissingNodes is the leader if it did not answer; ends and bytes are unknown then.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// PartitionDetail describes one partition and its copies.
type PartitionDetail struct {
	Partition
	Copies   []Copy    `json:"copies"`   // in the order of the replicas
	Left     Progress  `json:"left"`     // of a move
	Troubles []Trouble `json:"troubles"` // changes that the controller cannot make
}

// Copy is one replica of a partition. Ends and bytes are reported by its node if it answered.
// The remaining fields are the leader's view of a follower; Seen: the leader answered.
type Copy struct {
	Node           string   `json:"node"`
	InSync         bool     `json:"in_sync"`
	Answered       bool     `json:"answered"`
	LogStart       uint64   `json:"log_start"`
	CommittedEnd   uint64   `json:"committed_end"`
	LogEnd         uint64   `json:"log_end"`
	Bytes          int64    `json:"bytes"`
	Seen           bool     `json:"seen"`
	Connected      bool     `json:"connected"`
	State          string   `json:"state"`
	Acked          uint64   `json:"acked"` // it has every message below
	Lag            int64    `json:"lag"`   // messages
	LagBytes       int64    `json:"lag_bytes"`
	BytesPerSecond int64    `json:"bytes_per_second"`
	BehindFor      Duration `json:"behind_for"` // 0s: it is level; negative: it never was
	BehindForMS    int64    `json:"behind_for_ms"`
	// Damaged: part of it is unreadable.
	Damaged bool `json:"damaged"`
	// CheckedAt is when it was last scrubbed completely; absent if never.
	CheckedAt *time.Time `json:"checked_at,omitempty"`
	// Checking is the progress of the current scrub, 0 to 1.
	Checking float64 `json:"checking"`
}

// TransferLeader requests that another in-sync replica lead a partition.
type TransferLeader struct {
	To string `json:"to,omitempty"` // "": the controller's choice
}

// ElectLeader requests a leader for a partition without one. With Unclean it may be out of
// sync: messages that it lacks are lost.
type ElectLeader struct {
	To      string `json:"to,omitempty"`
	Unclean bool   `json:"unclean,omitempty"`
}

// MovePartition requests other nodes for a partition's replicas.
type MovePartition struct {
	Replicas []string `json:"replicas"`          // preferred leader first
	DryRun   bool     `json:"dry_run,omitempty"` // only check whether it is possible; the response is the unchanged partition
}

// PartitionList is the partitions of every topic, by topic and number.
type PartitionList struct {
	Partitions   []Partition `json:"partitions"`
	MissingNodes []string    `json:"missing_nodes,omitempty"` // of any partition
}

// Verification compares the replicas of a topic.
type Verification struct {
	Topic      string            `json:"topic"`
	Partitions []PartitionDigest `json:"partitions"` // by number
}

// PartitionDigest holds, per node, the digest of the messages on disk below the committed end.
// Identical: all in-sync replicas returned the same digest. Unreadable gives, for each other
// node that answered, why its replica cannot be read; a damaged one is copied again from
// another replica. Longer gives the committed end of each replica that holds committed messages beyond the end of
// its leader's log. MissingNodes have an in-sync replica and did not answer.
type PartitionDigest struct {
	Partition    int               `json:"partition"`
	CommittedEnd uint64            `json:"committed_end"`
	Digests      map[string]string `json:"digests"`
	Unreadable   map[string]string `json:"unreadable,omitempty"`
	Longer       map[string]uint64 `json:"longer,omitempty"`
	MissingNodes []string          `json:"missing_nodes,omitempty"`
	Identical    bool              `json:"identical"`
}

// Compared returns whether the replicas are identical, for people: yes; NO, also if one cannot be read or holds more
// than its leader; or unknown, if those that answered do not differ, and in-sync ones did not answer.
func (d *PartitionDigest) Compared() string {
	switch {
	case d.Identical:
		return "yes"
	case len(d.Unreadable) > 0, len(d.Longer) > 0, len(slices.Compact(slices.Sorted(maps.Values(d.Digests)))) > 1:
		return "NO"
	}
	return "unknown"
}
