package commitlog

import "github.com/brokerd/brokerd/pkg/seq"

// Entry is a set of records to append. They become part of the current batch in their turn.
type Entry interface {
	// Size returns the encoded size of the entry's records. AppendTo adds exactly that many
	// bytes.
	Size() int
	// AppendTo adds the entry's records to the batch in progress. It is called at most once, before
	// the call that accepted the entry returns.
	AppendTo(b *Builder)
	// Complete receives the outcome. It is called exactly once for an accepted entry, in the
	// order of acceptance, and must not block. A nil error means committed; otherwise
	// fate.Of(err) gives the fate of the records.
	Complete(at Placed, err error)
}

// Placed is the position of an entry's records in the log.
type Placed struct {
	Written  bool       // they are in the log, committed or not, or are being written; otherwise no other field is set
	First    seq.Offset // of the entry's first record
	Position int64      // byte position of their batch
}
