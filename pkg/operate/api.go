package operate

import (
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Peeked is a message that was looked at and not touched.
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
}

// Peek asks for messages without touching them.
type Peek struct {
	Topic     string
	Channel   string // "": the log itself
	Partition int    // AnyPartition: all
	From      *seq.Offset
	Max       int
	Bytes     int // none follows the message with which there are so many of bodies and headers; 0: no bound
	// Filter chooses messages, of which Max and Bytes count those that are chosen: see
	// pkg/filter. It looks at maxFiltered messages of a partition. "": all are chosen.
	Filter  string
	Letters *LettersOf // only dead letters of a channel, by what Filter may know of them; nil: any message
}

// LettersOf names a channel that has dead letters.
type LettersOf struct{ Topic, Channel string }

// SeekTo names a place that a channel is moved to: exactly one of the first four fields
// is set.
type SeekTo struct {
	Start, End bool
	Offset     *seq.Offset
	Time       time.Time
	Partition  *int // the only one; nil: all
	Forward    bool // a move back is refused
	Unsaved    bool // the position before is not worth saving: the channel is new
}
