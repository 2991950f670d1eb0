package trace

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// What is what happened to a message.
type What uint8

// What may happen. The numbers are stored.
const (
	Published    What = 1 + iota // the leader took it from a publisher
	Committed                    // every in-sync replica has it
	Delivered                    // a consumer was sent it
	Touched                      // its consumer asked for more time
	Requeued                     // its consumer gave it back, or left
	TimedOut                     // its consumer did not answer in time
	Deferred                     // it waits before it is delivered
	DeadLettered                 // it used up its attempts, and went to another topic
	Finished                     // it is done with
	whats
)

var words = [whats]string{
	"", "published", "committed", "delivered", "touched", "requeued", "timed_out", "deferred", "dead_lettered", "finished",
}

// String returns the word that interfaces use.
func (w What) String() string {
	if w >= whats {
		return ""
	}
	return words[w]
}

// Message is a message of a topic that may be gone: the incarnation tells it from another
// topic of its name.
type Message struct {
	Incarnation uint64        `json:"incarnation"`
	ID          seq.MessageID `json:"id"`
}

// Event is something that happened to messages which follow each other in a partition. It
// has no body, no header and no key.
type Event struct {
	What     What          `json:"what"`
	Time     int64         `json:"time"` // ns since 1970, by the clock of the node that noted it
	Message  Message       `json:"message"`
	Count    int           `json:"count,omitempty"` // of messages; 0 is 1
	Channel  string        `json:"channel,omitempty"`
	Client   string        `json:"client,omitempty"` // the publisher or the consumer
	Attempt  uint16        `json:"attempt,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Note     string        `json:"note,omitempty"`     // of a publish: the node that took it; of an end: its reason
	TraceID  uint64        `json:"trace_id,omitempty"` // of a published message; 0: it has none
	KeyHash  uint64        `json:"key_hash,omitempty"` // see HashKey; 0: it has none
	CopyOf   seq.MessageID `json:"copy_of,omitempty"`  // the message that it is a copy of
	IsCopy   bool          `json:"is_copy,omitempty"`  // it is one
	Replaces bool          `json:"replaces,omitempty"` // and stands in its place
}

// count returns of how many messages the event is.
func (e *Event) count() uint64 { return uint64(max(e.Count, 1)) } //nolint:gosec // not negative

// has reports whether the event is of a message.
func (e *Event) has(m Message) bool {
	return e.Message.Incarnation == m.Incarnation && m.ID >= e.Message.ID && uint64(m.ID-e.Message.ID) < e.count()
}

// HashKey returns what is kept of a key, so that messages are found by it and it is not
// stored: FNV-1a, never 0.
func HashKey(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return max(h, 1)
}
