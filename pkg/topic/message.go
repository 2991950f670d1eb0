package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Message is what a publisher hands in. Publishing copies it: its slices may
// be reused as soon as the call returns.
type Message struct {
	Body    []byte
	Delay   time.Duration // from when the leader appends it; 0: at once
	TraceID uint64        // 0: none
	Header  []byte        // a JSON object; nil: none
	Key     []byte        // what it is about, at most MaxKey bytes; nil: none
	Dedup   []byte        // the publisher's id for it, at most MaxDedup bytes; nil: none
	TTL     time.Duration // from when the leader appends it; 0: it does not expire
}

// Delivery is a message on its way to a consumer. Its slices are valid only
// during the call that hands it over.
type Delivery struct {
	ID        seq.MessageID
	Timestamp int64  // of publishing, ns since 1970
	Attempts  uint16 // deliveries to any consumer of the channel, this one included; at most MaxAttempts
	TraceID   uint64
	Header    []byte
	Body      []byte
	Position  int64 // byte position of its record in the partition's log
	RawSize   int32 // bytes that the record takes there
}

// MaxAttempts is where the attempts counter saturates: clients read it as a
// signed 16-bit number, and the extension framing keeps the top bits clear.
const MaxAttempts = 4000

// Receipt is the answer to a publish. With a nil Err the messages are as
// durable as the topic promises, at [First, First+Count) of the partition.
// fate.Of(Err) tells what became of them otherwise.
type Receipt struct {
	Partition int
	First     seq.Offset
	Count     int
	Position  int64 // byte position of the first one's record in the log
	RawSize   int64 // bytes that their records take there
	Err       error
}
