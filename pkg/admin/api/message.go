package api

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// Publish requests to store messages. Without a Partition, a message goes to the partition of
// its key, or of its dedup id if it has no key; all others go to one partition picked by the
// broker. The messages of one partition are stored all or none.
type Publish struct {
	Messages  []Message `json:"messages"`
	Partition *int      `json:"partition,omitempty"`
	Key       string    `json:"key,omitempty"` // of messages that have none of their own
}

// Message is a message to publish. Its body is either Body or Text and must not be empty.
type Message struct {
	Body    []byte   `json:"body,omitempty"`
	Text    string   `json:"text,omitempty"`
	Delay   Duration `json:"delay,omitempty"`    // it is delivered no earlier than this from now
	DelayMS int64    `json:"delay_ms,omitempty"` // the same in milliseconds
	Key     string   `json:"key,omitempty"`      // the key, up to
	Dedup   string   `json:"dedup,omitempty"`    // up to 64 bytes: it is stored once within the topic's dedup window
	TTL     Duration `json:"ttl,omitempty"`      // it is not delivered later than this from now; 0s: the topic's
	TTLMS   int64    `json:"ttl_ms,omitempty"`   // the same in milliseconds
	// KeyBase64 and DedupBase64 take precedence over Key and Dedup, for bytes that are not UTF-8.
	KeyBase64   []byte          `json:"key_base64,omitempty"`
	DedupBase64 []byte          `json:"dedup_base64,omitempty"`
	Headers     json.RawMessage `json:"headers,omitempty"` // an object; the topic must have ext
	// HeadersBase64 is the JSON object of the headers, if JSON text cannot represent its
	// strings: bytes that are not UTF-8, or half of a surrogate pair. It takes precedence over Headers.
	HeadersBase64 []byte `json:"headers_base64,omitempty"`
	TraceID       uint64 `json:"trace_id,omitempty"` // 0: none
	// TraceIDHex is the trace id as up to 16 hexadecimal digits, for programs that round
	// numbers above 2^53. If both are set they must be equal.
	TraceIDHex string `json:"trace_id_hex,omitempty"`
}

// Size returns how many bytes the message adds to the size of a request: its body in base64, its
// header and its key.
func (m *Message) Size() int {
	return len(m.Body) + len(m.Text) + len(m.Headers) + len(m.HeadersBase64) + len(m.Key) + len(m.KeyBase64)
}

// Published is the answer to Publish: the messages are as durable as the topic's sync policy.
// Partition and FirstSeq are those of the first message; a duplicate is answered with its
// stored position.
type Published struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	FirstSeq  uint64 `json:"first_seq"`
	Count     int    `json:"count"`
	// IDs are the message ids for consumers, in order.
	IDs []string `json:"ids"`
	// Parts lists the messages per partition, ordered by first message, unless they are simply
	// Count messages from FirstSeq in Partition.
	Parts []PublishedPart `json:"parts,omitempty"`
}

// PublishedPart is the part of a publish stored in one partition. Other messages may lie in
// between.
type PublishedPart struct {
	Partition int    `json:"partition"`
	FirstSeq  uint64 `json:"first_seq"`
	Count     int    `json:"count"`
}

// PeekState is the state of a peeked message in the channel.
type PeekState string

// The states. PeekStored is used without a channel.
const (
	PeekReady     PeekState = "ready"
	PeekInFlight  PeekState = "in_flight"
	PeekDeferred  PeekState = "deferred"
	PeekFinished  PeekState = "finished"
	PeekExhausted PeekState = "exhausted" // it has had all its attempts
	PeekStored    PeekState = "stored"
)

// Peeked is a message returned by a peek.
type Peeked struct {
	Partition int        `json:"partition"`
	Seq       uint64     `json:"seq"`
	ID        string     `json:"id"` // 16 hexadecimal digits, as on the wire
	Timestamp time.Time  `json:"timestamp"`
	DeliverAt *time.Time `json:"deliver_at,omitempty"` // absent: not delayed
	Attempts  uint16     `json:"attempts"`
	State     PeekState  `json:"state"`
	TraceID   uint64     `json:"trace_id,omitempty"`
	// TraceIDHex is the trace id as 16 hexadecimal digits, because browsers round the number.
	TraceIDHex string          `json:"trace_id_hex,omitempty"`
	Headers    json.RawMessage `json:"headers"` // an object; {} if there are no headers
	// HeadersBase64 are the headers if JSON text cannot represent their strings; Headers is {} then.
	HeadersBase64 []byte `json:"headers_base64,omitempty"`
	Key           string `json:"key,omitempty"`
	Dedup         string `json:"dedup,omitempty"`
	// KeyBase64 and DedupBase64 are set if Key or Dedup cannot represent the bytes, which are not UTF-8.
	KeyBase64   []byte  `json:"key_base64,omitempty"`
	DedupBase64 []byte  `json:"dedup_base64,omitempty"`
	TTLMS       int64   `json:"ttl_ms,omitempty"` // as its publisher named it
	Body        []byte  `json:"body"`
	Text        *string `json:"text,omitempty"` // the body, if it is UTF-8
	// CopyOf is the id of the original of a copy that is in the log for one channel alone: requeued for long,
	// carried forward, redriven or sent again.
	CopyOf string `json:"copy_of,omitempty"`
}

// PeekedList is the answer to a peek.
type PeekedList struct {
	Messages []Peeked `json:"messages"`
}

// MessageDetail is a message and its state in the channels of its topic.
type MessageDetail struct {
	Topic string `json:"topic"`
	Peeked
	Channels []MessageChannel `json:"channels"` // by name
}

// MessageChannel is the state of a message in a channel. Attempts of finished messages are not
// kept.
type MessageChannel struct {
	Channel  string    `json:"channel"`
	State    PeekState `json:"state"`
	Attempts uint16    `json:"attempts"`
}

// FinishedMessage is a message that was finished in a channel by an operator.
type FinishedMessage struct {
	Topic     string    `json:"topic"`
	Channel   string    `json:"channel"`
	ID        string    `json:"id"`
	Partition int       `json:"partition"`
	Seq       uint64    `json:"seq"`
	Was       PeekState `json:"was"` // the previous state; finished: nothing was changed
}

// Message returns a message by its id, and its state in a channel of its topic; "" means all
// channels.
func (i Insights) Message(ctx context.Context, topic, id, channel string) (*MessageDetail, error) {
	q := url.Values{}
	if channel != "" {
		q.Set("channel", channel)
	}
	return find[MessageDetail](ctx, i.t, path("topics", topic, "messages", id), q)
}

// History are the requests that move channels and undo moves.
type History struct{ t *transport }

// FinishMessage finishes a message in a channel, whatever its state. If a consumer has it in
// flight, that consumer's FIN fails.
func (h History) FinishMessage(ctx context.Context, topic, channel, id string) (*FinishedMessage, error) {
	return post[FinishedMessage](ctx, h.t, path("topics", topic, "channels", channel, "messages", id, "finish"), nil)
}

// RequeueMessage redelivers a stored message to one channel; other channels skip it.
func (h History) RequeueMessage(ctx context.Context, topic, channel, id string) (*Published, error) {
	return post[Published](ctx, h.t, path("topics", topic, "channels", channel, "messages", id, "requeue"), nil)
}

// CopyMessage publishes a stored message to a topic.
func (h History) CopyMessage(ctx context.Context, topic, id, to string) (*Published, error) {
	return post[Published](ctx, h.t, path("topics", topic, "messages", id, "copy")+"?"+url.Values{"to": {to}}.Encode(), nil)
}
