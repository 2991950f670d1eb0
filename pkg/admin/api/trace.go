package api

import (
	"context"
	"net/url"
	"time"
)

// TraceEvent is one event in the life of a message.
type TraceEvent struct {
	Time time.Time `json:"time"` // by the clock of the node
	Node string    `json:"node"` // that recorded it: the leader at that time
	// What is one of published, committed, delivered, touched, requeued, timed_out, deferred,
	// dead_lettered and finished.
	What      string `json:"what"`
	Attempt   uint16 `json:"attempt,omitempty"`   // of the delivery that it is, or ends
	Consumer  string `json:"consumer,omitempty"`  // that was sent the message, or answered
	Channel   string `json:"channel,omitempty"`   // absent: it is of all channels
	Publisher string `json:"publisher,omitempty"` // of published: the client
	Through   string `json:"through,omitempty"`   // of published: the node that it was connected to
	DelayMS   int64  `json:"delay_ms,omitempty"`  // of requeued and deferred
	Reason    string `json:"reason,omitempty"`    // why it is finished without a consumer
	CopyID    string `json:"copy_id,omitempty"`   // it is of a copy of the message for one channel, which has this id
}

// MessageTrace lists the events of a message, oldest first.
type MessageTrace struct {
	ID        string       `json:"id"`
	Topic     string       `json:"topic"`
	Partition int          `json:"partition"`
	Seq       uint64       `json:"seq"`
	Events    []TraceEvent `json:"events"`
	// Missing names the nodes that did not answer; their events are not included.
	Missing []string `json:"missing_nodes,omitempty"`
	// Truncated reports that older events are omitted.
	Truncated bool `json:"truncated,omitempty"`
}

// TraceList lists the traces of messages that share a trace id or a key, by position.
type TraceList struct {
	Topic     string         `json:"topic"`
	Messages  []MessageTrace `json:"messages"`
	Missing   []string       `json:"missing_nodes,omitempty"`
	Truncated bool           `json:"truncated,omitempty"` // there are more messages or events
}

// Trace returns the events of a message. topic may be empty if the id belongs to one topic
// only.
func (i Insights) Trace(ctx context.Context, topic, id string) (*MessageTrace, error) {
	q := url.Values{}
	if topic != "" {
		q.Set("topic", topic)
	}
	return find[MessageTrace](ctx, i.t, path("messages", id, "trace"), q)
}

// TracesBy returns the events of the messages of a topic published with a trace id (decimal) or
// with a key; the other one is "".
func (i Insights) TracesBy(ctx context.Context, topic, traceID, key string) (*TraceList, error) {
	q := url.Values{}
	if traceID != "" {
		q.Set("trace_id", traceID)
	}
	if key != "" {
		q.Set("key", key)
	}
	return find[TraceList](ctx, i.t, path("topics", topic, "traces"), q)
}
