package api

import "time"

// ChannelSummary is a channel within a Topic or a ChannelList. Depth counts
// what waits: neither in flight nor deferred.
type ChannelSummary struct {
	Name        string   `json:"name"`
	Depth       int64    `json:"depth"`
	InFlight    int64    `json:"in_flight"`
	Deferred    int64    `json:"deferred"`
	Consumers   int      `json:"consumers"`
	Paused      bool     `json:"paused"`
	Ordered     bool     `json:"ordered"` // order is strict
	Order       string   `json:"order"`   // none, strict, or key
	Ephemeral   bool     `json:"ephemeral"`
	OldestAge   Duration `json:"oldest_age"` // of the oldest unfinished message; 0s: none
	OldestAgeMS int64    `json:"oldest_age_ms"`
	// MissingNodes lead partitions and have not answered: they are missing in the counts.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// ChannelList is the channels of one topic, by name.
type ChannelList struct {
	Topic        string           `json:"topic"`
	Channels     []ChannelSummary `json:"channels"`
	MissingNodes []string         `json:"missing_nodes,omitempty"` // of the topic
}

// TopicChannel is a channel in a list over topics.
type TopicChannel struct {
	Topic string `json:"topic"`
	ChannelSummary
}

// AllChannels is the channels of all topics, by topic and name.
type AllChannels struct {
	Channels     []TopicChannel `json:"channels"`
	MissingNodes []string       `json:"missing_nodes,omitempty"` // of any topic
}

// ChannelsOf returns the channels of topics.
func ChannelsOf(topics []Topic) AllChannels {
	all := AllChannels{Channels: []TopicChannel{}}
	for _, t := range topics {
		all.MissingNodes = Union(all.MissingNodes, t.MissingNodes)
		for _, c := range t.Channels {
			all.Channels = append(all.Channels, TopicChannel{t.Name, c})
		}
	}
	return all
}

// CreateChannel asks for a channel.
type CreateChannel struct {
	Name    string `json:"name"`
	Ordered bool   `json:"ordered,omitempty"` // the same as order strict
	// Order is none, strict (one message of a partition at a time) or key (of the messages
	// of a partition with one key, one at a time); "": none, or what Ordered says.
	Order string `json:"order,omitempty"`
	// Policy is of a channel that is made; one that is there is not changed.
	Policy *PolicyPatch `json:"policy,omitempty"`
	// Filter chooses the messages that the channel gets; "": all.
	Filter string `json:"filter,omitempty"`
	// From is where a channel begins that is not there yet; nil: the first one of a topic
	// with all that is kept, another one with what is published from now on.
	From *Seek `json:"from,omitempty"`
}

// Channel describes a channel, its consumers and its place in each partition.
type Channel struct {
	Topic          string   `json:"topic"`
	Name           string   `json:"name"`
	Depth          int64    `json:"depth"` // waiting: neither in flight nor deferred
	InFlight       int64    `json:"in_flight"`
	Deferred       int64    `json:"deferred"`
	Paused         bool     `json:"paused"`
	Ordered        bool     `json:"ordered"` // order is strict
	Order          string   `json:"order"`   // none, strict, or key
	Ephemeral      bool     `json:"ephemeral"`
	OldestAge      Duration `json:"oldest_age"` // of the oldest unfinished message; 0s: none
	OldestAgeMS    int64    `json:"oldest_age_ms"`
	MessagesTotal  uint64   `json:"messages_total"`
	DeliveredTotal uint64   `json:"delivered_total"`
	FinishedTotal  uint64   `json:"finished_total"`
	RequeuedTotal  uint64   `json:"requeued_total"`
	TimedOutTotal  uint64   `json:"timed_out_total"`
	ExpiredTotal   uint64   `json:"expired_total"` // dropped or dead-lettered instead of delivered: their time to live was over
	Policy         Policy   `json:"policy"`
	// Filter chooses the messages that the channel gets, "": all; the others are finished, and
	// counted by FilteredTotal. FilterErrorsTotal counts those of them on which the evaluation
	// failed.
	Filter            string `json:"filter"`
	FilteredTotal     uint64 `json:"filtered_total"`
	FilterErrorsTotal uint64 `json:"filter_errors_total"`
	// FilterBroken says that a leader cannot use the filter, and delivers nothing.
	FilterBroken bool `json:"filter_broken,omitempty"`
	// Exhausted counts messages, of Depth, that have had all their attempts and are not
	// delivered: they become dead letters soon, or block.
	Exhausted         int64  `json:"exhausted"`
	BackingOff        int64  `json:"backing_off"`  // of Deferred: by the channel's backoff
	RateLimited       bool   `json:"rate_limited"` // consumers wait for the channel's rate
	BackedOffTotal    uint64 `json:"backed_off_total"`
	DeadLetteredTotal uint64 `json:"dead_lettered_total"`
	DroppedTotal      uint64 `json:"dropped_total"`

	Consumers  []Consumer         `json:"consumers"`  // by address
	Partitions []ChannelPartition `json:"partitions"` // by number
	// MissingNodes lead partitions and have not answered: they are missing in the counts.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// ChannelPartition is a channel's place in one partition. Lag is the committed
// end less Confirmed: it counts finished messages behind an unfinished one too.
type ChannelPartition struct {
	Partition int    `json:"partition"`
	Leader    string `json:"leader"`
	Confirmed uint64 `json:"confirmed"` // every message below it is finished
	Lag       int64  `json:"lag"`
	// Blocked is the first message that has had all its attempts and stays, as the
	// channel's policy says; absent: there is none.
	Blocked *uint64 `json:"blocked_seq,omitempty"`
	// KeyBlocked says for which key most messages of a channel wait that orders by key; absent:
	// others do not wait for theirs, or none does.
	KeyBlocked *KeyBlock `json:"key_blocked,omitempty"`
	// Spinning are messages that consumers requeue as soon as they get them, over a
	// hundred times a second; the fastest first, ten at most.
	Spinning []SpinningMessage `json:"spinning,omitempty"`
}

// SpinningMessage is a message that is delivered and requeued over and over. It is shown by
// `brokerctl message peek T/C --partition P --from SEQ`.
type SpinningMessage struct {
	Seq       uint64  `json:"seq"`
	PerSecond float64 `json:"requeues_per_second"`
}

// Consumer is one connection that takes messages from a channel.
type Consumer struct {
	Address        string    `json:"address"` // host:port
	ClientID       string    `json:"client_id"`
	Hostname       string    `json:"hostname"`
	UserAgent      string    `json:"user_agent"`
	Ready          int64     `json:"ready"` // its RDY
	InFlight       int64     `json:"in_flight"`
	DeliveredTotal uint64    `json:"delivered_total"`
	FinishedTotal  uint64    `json:"finished_total"`
	RequeuedTotal  uint64    `json:"requeued_total"`
	TimedOutTotal  uint64    `json:"timed_out_total"`
	TLS            bool      `json:"tls"`
	ConnectedAt    time.Time `json:"connected_at"`
}

// Seek moves a channel in every partition: exactly one of To, Offset and Time is set. What is
// behind the new place is finished, what is ahead of it is delivered again.
type Seek struct {
	To     SeekEdge   `json:"to,omitempty"`
	Offset *uint64    `json:"offset,omitempty"` // of the next message to deliver
	Time   *time.Time `json:"time,omitempty"`   // the first message published then or later
	// Partition is the only one in which it is moved; nil: all.
	Partition *int `json:"partition,omitempty"`
}

// SeekEdge is a place that every log has.
type SeekEdge string

// The edges.
const (
	SeekStart SeekEdge = "start" // the oldest message that is kept
	SeekEnd   SeekEdge = "end"   // only what is published from now on
)

// KeyBlock is the key for which most messages wait of a channel that orders by key.
type KeyBlock struct {
	Key     string `json:"key"`
	Seq     uint64 `json:"seq"`     // its first message that is not finished
	State   string `json:"state"`   // of that: ready, in_flight, deferred or exhausted
	Waiting int    `json:"waiting"` // messages of the key, that one included
	Tracked int    `json:"tracked"` // messages of all keys
	// Full says that the channel remembers as many as it may, and looks no further ahead
	// in the partition.
	Full bool `json:"full"`
}
