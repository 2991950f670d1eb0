package trace

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// What is the kind of an event.
type What uint8

// Kinds of events. The numbers are stored.
const (
	Published    What = 1 + iota // the leader accepted it from a publisher
	Committed                    // every in-sync replica has stored it
	Delivered                    // it was sent to a consumer
	Touched                      // its consumer restarted the message timeout
	Requeued                     // its consumer requeued it, or disconnected
	TimedOut                     // its message timeout has passed
	Deferred                     // its delivery is deferred
	DeadLettered                 // it used up its attempts, and was moved to another topic
	Finished                     // it was finished
	whats
)

var words = [whats]string{
	"", "published", "committed", "delivered", "touched", "requeued", "timed_out", "deferred", "dead_lettered", "finished",
}

// String returns the name used in interfaces.
func (w What) String() string {
	if w >= whats {
		return ""
	}
	return words[w]
}

// Message is a message of a topic, which may be deleted: the incarnation distinguishes it from
// another topic of the same name.
type Message struct {
	Incarnation uint64        `json:"incarnation"`
	ID          seq.MessageID `json:"id"`
}

// Event is an event of one message or of consecutive messages of a partition. It contains no body,
// header or key.
type Event struct {
	What     What          `json:"what"`
	Time     int64         `json:"time"` // ns since 1970, by the clock of the recording node
	Message  Message       `json:"message"`
	Count    int           `json:"count,omitempty"` // of messages; 0 is 1
	Channel  string        `json:"channel,omitempty"`
	Client   string        `json:"client,omitempty"` // the publisher or the consumer
	Attempt  uint16        `json:"attempt,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Note     string        `json:"note,omitempty"`     // of a publish: the receiving node; of an end: its reason
	TraceID  uint64        `json:"trace_id,omitempty"` // of a published message; 0: none
	KeyHash  uint64        `json:"key_hash,omitempty"` // see HashKey; 0: none
	CopyOf   seq.MessageID `json:"copy_of,omitempty"`  // the original of a copy
	IsCopy   bool          `json:"is_copy,omitempty"`  // the message is a copy
	Replaces bool          `json:"replaces,omitempty"` // the copy replaces the original
}

// count returns the number of messages of the event.
func (e *Event) count() uint64 { return uint64(max(e.Count, 1)) } //nolint:gosec // not negative

// continuedBy reports whether the next event is the same at any time, for the next messages.
// Published messages are found by what their event says of each.
func (e *Event) continuedBy(next *Event) bool {
	return next.Message.ID == e.Message.ID+seq.MessageID(e.count()) && next.What == e.What && next.What != Published &&
		next.Message.Incarnation == e.Message.Incarnation && next.Attempt == e.Attempt && next.Delay == e.Delay &&
		next.Channel == e.Channel && next.Client == e.Client && next.Note == e.Note && next.TraceID == e.TraceID &&
		next.KeyHash == e.KeyHash && next.IsCopy == e.IsCopy && next.CopyOf == e.CopyOf && next.Replaces == e.Replaces
}

// has reports whether the event is about a message.
func (e *Event) has(m Message) bool {
	return e.Message.Incarnation == m.Incarnation && m.ID >= e.Message.ID && uint64(m.ID-e.Message.ID) < e.count()
}

// HashKey returns the hash that is stored instead of a key, to find messages by it: FNV-1a, never
// 0.
func HashKey(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return max(h, 1)
}
