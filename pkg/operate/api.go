package operate

import (
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Peeked is a message that was read without consuming it.
type Peeked struct {
	Partition int
	Offset    seq.Offset
	ID        seq.WireID
	Timestamp time.Time
	DeliverAt time.Time
	Attempts  uint16
	State     api.PeekState
	TraceID   uint64
	Header    []byte
	Key       []byte
	Dedup     []byte
	TTL       time.Duration
	Body      []byte
	CopyOf    *seq.WireID // nil: it is no copy for one channel
}

// Peek is a request for messages without consuming them.
type Peek struct {
	Topic     string
	Channel   string      // "": the log itself
	Partition int         // AnyPartition: all
	From      *seq.Offset // of one partition: the messages end before a damaged range, unless they begin in it
	Max       int
	Bytes     int // no message follows the one that reaches this many bytes of bodies and headers; 0: no bound
	// Filter chooses messages: see pkg/filter. Max and Bytes count only chosen ones. It visits
	// maxFiltered messages of a partition. "": all are chosen.
	Filter  string
	State   api.PeekState // only messages in this state in the channel, chosen like those of a Filter; "": in any
	Letters *LettersOf    // only dead letters of a channel, as far as Filter may use their header; nil: any message
}

// LettersOf names a channel with dead letters.
type LettersOf struct{ Topic, Channel string }

// SeekTo is the target of a move of a channel: exactly one of the first four fields is set.
type SeekTo struct {
	Start, End bool
	Offset     *seq.Offset
	Time       time.Time
	Partition  *int // the only one; nil: all
	Forward    bool // a move back is refused
	Unsaved    bool // the previous position is not saved: the channel is new
	Deleted    bool // to that of the deleted channel of the name; only planned
	Replace    bool // with Deleted, also of a channel that was created since
}
