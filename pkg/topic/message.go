package topic

import (
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Message is a message to publish. Publishing copies it: its slices may be reused as soon as the
// call returns.
type Message = record.Message

// Maximum sizes of the parts of a message, in bytes.
const (
	MaxHeader = record.MaxHeader
	MaxKey    = record.MaxKey
	MaxDedup  = record.MaxDedup
)

// Delivery is a message being delivered. Its slices are valid only during the call.
type Delivery struct {
	ID        seq.MessageID
	Timestamp int64  // time of publishing, ns since 1970; for an addressed message its origin's
	Attempts  uint16 // deliveries to any consumer of the channel, this one included; at most seq.MaxAttempts
	TraceID   uint64
	Header    []byte
	Key       []byte
	Body      []byte
	Position  int64 // byte position of its record in the partition's log
	RawSize   int32 // length of its record there, in bytes
	Alone     bool  // its consumer must have no other message meanwhile: see channel.Isolation
}

// Receipt is the result of a publish. With a nil Err the messages are as durable as the topic's
// sync policy, at [First, First+Count) of the partition or, if some were stored before or
// elsewhere, as IDs. Otherwise fate.Of(Err) gives their fate.
type Receipt struct {
	Partition int
	First     seq.Offset
	Count     int
	Position  int64           // byte position of the first record in the log; 0: all were stored before
	RawSize   int64           // total length of their records, in bytes
	Written   bool            // the messages are in the log from First on, committed or not
	IDs       []seq.MessageID // id of each message; nil: they are consecutive in the partition
	Err       error
}

// ID returns the id of message i.
func (r *Receipt) ID(i int) seq.MessageID {
	if r.IDs != nil {
		return r.IDs[i]
	}
	return seq.NewMessageID(r.Partition, r.First+seq.Offset(i)) //nolint:gosec // an index is not negative
}

// Identified reports whether any of the messages has a dedup id. A copy for one channel does not
// count: it is stored in addition to its origin.
func Identified(msgs []Message) bool {
	for i := range msgs {
		if msgs[i].Dedup != nil && msgs[i].Address == nil {
			return true
		}
	}
	return false
}
