package api

import (
	"slices"
	"time"
)

// ChannelSummary is a channel within a Topic or a ChannelList. Depth counts waiting messages,
// neither in flight nor deferred.
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
	// MissingNodes lead partitions but did not answer; the counts do not include them.
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
		all.MissingNodes = append(all.MissingNodes, t.MissingNodes...)
		for _, c := range t.Channels {
			all.Channels = append(all.Channels, TopicChannel{t.Name, c})
		}
	}
	slices.Sort(all.MissingNodes)
	all.MissingNodes = slices.Compact(all.MissingNodes)
	return all
}

// CreateChannel is the request to create a channel.
type CreateChannel struct {
	Name    string `json:"name"`
	Ordered bool   `json:"ordered,omitempty"` // the same as order strict
	// Order is none, strict (one message of a partition at a time) or key (one message of each key
	// of a partition at a time). "" means strict in an ordered topic, which refuses none, and
	// otherwise the value of Ordered.
	Order string `json:"order,omitempty"`
	// Policy applies to a new channel only; an existing one is not changed.
	Policy *PolicyPatch `json:"policy,omitempty"`
	// Filter selects the messages of the channel; "" means all.
	Filter string `json:"filter,omitempty"`
	// From is the start of a new channel. nil: the first channel of a topic starts with all
	// stored messages, any other with messages published from now on.
	From   *Seek `json:"from,omitempty"`
	DryRun bool  `json:"dry_run,omitempty"` // only return the channel that would be created
}

// ChannelCounts counts the messages of a channel. The totals count since the present leaders of
// the partitions lead.
type ChannelCounts struct {
	Depth          int64  `json:"depth"` // waiting: neither in flight nor deferred
	InFlight       int64  `json:"in_flight"`
	Deferred       int64  `json:"deferred"`
	MessagesTotal  uint64 `json:"messages_total"` // that reached the channel
	DeliveredTotal uint64 `json:"delivered_total"`
	FinishedTotal  uint64 `json:"finished_total"`
	RequeuedTotal  uint64 `json:"requeued_total"`
	TimedOutTotal  uint64 `json:"timed_out_total"`
	ExpiredTotal   uint64 `json:"expired_total"` // dropped or dead-lettered instead of delivered: their time to live was over
	// FilteredTotal counts the messages finished because the filter does not select them, and
	// FilterErrorsTotal those of them on which its evaluation failed.
	FilteredTotal     uint64 `json:"filtered_total"`
	FilterErrorsTotal uint64 `json:"filter_errors_total"`
	// FilterBroken reports that a leader cannot compile the filter and delivers nothing.
	FilterBroken bool `json:"filter_broken,omitempty"`
	// Exhausted counts the messages within Depth that used up their attempts: they wait to
	// become dead letters, or block.
	Exhausted         int64  `json:"exhausted"`
	Expired           int64  `json:"expired"`      // of Depth: they lived too long and wait to become dead letters
	BackingOff        int64  `json:"backing_off"`  // of Deferred: by the channel's backoff
	RateLimited       bool   `json:"rate_limited"` // consumers wait for the channel's rate
	BackedOffTotal    uint64 `json:"backed_off_total"`
	DeadLetteredTotal uint64 `json:"dead_lettered_total"`
	DroppedTotal      uint64 `json:"dropped_total"`
}

// Add adds the counts of other partitions, or of another channel.
func (c *ChannelCounts) Add(d *ChannelCounts) {
	c.Depth += d.Depth
	c.InFlight += d.InFlight
	c.Deferred += d.Deferred
	c.MessagesTotal += d.MessagesTotal
	c.DeliveredTotal += d.DeliveredTotal
	c.FinishedTotal += d.FinishedTotal
	c.RequeuedTotal += d.RequeuedTotal
	c.TimedOutTotal += d.TimedOutTotal
	c.ExpiredTotal += d.ExpiredTotal
	c.FilteredTotal += d.FilteredTotal
	c.FilterErrorsTotal += d.FilterErrorsTotal
	c.FilterBroken = c.FilterBroken || d.FilterBroken
	c.Exhausted += d.Exhausted
	c.Expired += d.Expired
	c.BackingOff += d.BackingOff
	c.RateLimited = c.RateLimited || d.RateLimited
	c.BackedOffTotal += d.BackedOffTotal
	c.DeadLetteredTotal += d.DeadLetteredTotal
	c.DroppedTotal += d.DroppedTotal
}

// Channel describes a channel, its consumers and its position in each partition.
type Channel struct {
	Topic       string   `json:"topic"`
	Name        string   `json:"name"`
	Paused      bool     `json:"paused"`
	Ordered     bool     `json:"ordered"` // order is strict
	Order       string   `json:"order"`   // none, strict, or key
	Ephemeral   bool     `json:"ephemeral"`
	OldestAge   Duration `json:"oldest_age"` // of the oldest unfinished message; 0s: none
	OldestAgeMS int64    `json:"oldest_age_ms"`
	ChannelCounts
	Policy     Policy             `json:"policy"`
	Filter     string             `json:"filter"`     // selects the messages of the channel; "": all
	Consumers  []Consumer         `json:"consumers"`  // by address
	Partitions []ChannelPartition `json:"partitions"` // by number
	// LastConsumer names the consumer that left last since the leaders of the partitions took over, by
	// client id and address, and LeftAt is when it did; nil: none is known.
	LastConsumer string     `json:"last_consumer,omitempty"`
	LeftAt       *time.Time `json:"last_consumer_left_at,omitempty"`
	// MissingNodes lead partitions but did not answer; the counts do not include them.
	MissingNodes []string `json:"missing_nodes,omitempty"`
}

// ChannelPartition is a channel's position in one partition. Lag is the committed end minus
// Confirmed; it includes finished messages above an unfinished one.
type ChannelPartition struct {
	Partition int    `json:"partition"`
	Leader    string `json:"leader"`
	Confirmed uint64 `json:"confirmed"` // every message below it is finished
	Lag       int64  `json:"lag"`
	// Blocked is the first message that used up its attempts and stays because of the channel's
	// policy; absent if none.
	Blocked *uint64 `json:"blocked_seq,omitempty"`
	// KeyBlocked is the key for which most messages wait, in a channel ordered by key; absent
	// if none waits.
	KeyBlocked *KeyBlock `json:"key_blocked,omitempty"`
	// Suspects are the messages that are delivered one at a time, because they have failed with others; absent
	// if there is none.
	Suspects *Suspects `json:"suspects,omitempty"`
	// Spinning lists messages that consumers requeue immediately, more than a hundred times per
	// second; fastest first, at most ten.
	Spinning []SpinningMessage `json:"spinning,omitempty"`
}

// SpinningMessage is a message that is delivered and requeued in a loop. `brokerctl message peek
// T/C --partition P --from SEQ` shows it.
type SpinningMessage struct {
	Seq       uint64  `json:"seq"`
	PerSecond float64 `json:"requeues_per_second"`
}

// Consumer is one connection that consumes a channel.
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
	// Oldest is the message in flight that it has had longest; nil: none is in flight.
	Oldest *HeldMessage `json:"oldest_in_flight,omitempty"`
}

// HeldMessage is a message in flight.
type HeldMessage struct {
	Partition int       `json:"partition"`
	Seq       uint64    `json:"seq"`
	Since     time.Time `json:"since"` // when it was delivered
}

// Seek moves a channel in every partition. Exactly one of To, Offset and Time is set. Messages
// below the new position are finished, messages above it are redelivered.
type Seek struct {
	To     SeekEdge   `json:"to,omitempty"`
	Offset *uint64    `json:"offset,omitempty"` // of the next message to deliver
	Time   *time.Time `json:"time,omitempty"`   // the first message published then or later
	// Partition restricts the move to one partition; nil means all.
	Partition *int `json:"partition,omitempty"`
}

// SeekEdge is a position that every log has.
type SeekEdge string

// The edges.
const (
	SeekStart SeekEdge = "start" // the oldest message that is kept
	SeekEnd   SeekEdge = "end"   // only messages published from now on
)

// Suspects are messages whose consumers lost their connection or let them time out, at least three times, while they
// had others too. They are delivered one at a time until they are finished or have used up their attempts.
type Suspects struct {
	Count    int    `json:"count"`
	Seq      uint64 `json:"seq"`       // of the one that is in flight, or next
	InFlight bool   `json:"in_flight"` // it is in flight
	Failed   int    `json:"failed"`    // how often it has failed alone, or was requeued
}

// KeyBlock is the key for which most messages wait in a channel ordered by key.
type KeyBlock struct {
	Key       string `json:"key"`
	KeyBase64 []byte `json:"key_base64,omitempty"` // the key, if it is not UTF-8
	Seq       uint64 `json:"seq"`                  // its first message that is not finished
	State     string `json:"state"`                // of that: ready, in_flight, deferred or exhausted
	Waiting   int    `json:"waiting"`              // messages of the key, that one included
	Tracked   int    `json:"tracked"`              // messages of all keys
	// Full reports that the channel has reached the maximum of waiting messages and does not
	// read on in the partition.
	Full bool `json:"full"`
}

// Policy is the effective policy of a channel for unfinished messages and the delivery rate,
// including the settings of its topic and the cluster.
type Policy struct {
	MaxAttempts     int    `json:"max_attempts"`      // deliveries of one message; 0: no limit
	OnExhausted     string `json:"on_exhausted"`      // of a message that has had them: see OnExhausted
	OnExpired       string `json:"on_expired"`        // of an expired message: dead-letter or drop
	DeadLetterTopic string `json:"dead_letter_topic"` // where dead letters go
	Backoff         string `json:"backoff"`           // delay before a redelivery: 1s..10m, or off
	Rate            int    `json:"rate"`              // messages a second over all nodes; 0: no limit
	// Own lists the fields set by the channel itself.
	Own []string `json:"own"`
}

// Outcomes for a message that has used up its attempts.
const (
	OnExhaustedDeadLetter = "dead-letter" // move it to the dead-letter topic
	OnExhaustedDrop       = "drop"        // it is finished
	OnExhaustedBlock      = "block"       // it stays and is not delivered; an ordered channel waits
)

// PolicyPatch changes the policy of a channel, or the default of a topic's channels. nil fields
// are not changed.
type PolicyPatch struct {
	MaxAttempts     *int    `json:"max_attempts,omitempty"` // 0: no limit
	OnExhausted     *string `json:"on_exhausted,omitempty"`
	OnExpired       *string `json:"on_expired,omitempty"`        // dead-letter or drop
	DeadLetterTopic *string `json:"dead_letter_topic,omitempty"` // "": <topic>.<channel>.dlq
	Backoff         *string `json:"backoff,omitempty"`
	Rate            *int    `json:"rate,omitempty"` // 0: no limit
	// Reset lists the fields to reset to their defaults.
	Reset []string `json:"reset,omitempty"`
}

// AlterChannel changes a channel; nil fields are not changed.
type AlterChannel struct {
	Ordered *bool        `json:"ordered,omitempty"` // the same as order strict, or none
	Order   *string      `json:"order,omitempty"`   // none, strict or key
	Policy  *PolicyPatch `json:"policy,omitempty"`
	Filter  *string      `json:"filter,omitempty"`  // "": removes the filter
	DryRun  bool         `json:"dry_run,omitempty"` // only return the channel that would be left
}
