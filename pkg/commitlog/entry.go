package commitlog

import "github.com/brokerd/brokerd/pkg/seq"

// Entry is what one caller wants appended: some records, which become part of
// whatever batch is being formed when it is their turn.
type Entry interface {
	// Size returns the bytes that the entry's records take in a batch. AppendTo adds
	// exactly as many.
	Size() int
	// AppendTo adds the entry's records to the batch being formed. It is called
	// at most once, before the call that took the entry returns.
	AppendTo(b *Builder)
	// Complete tells what became of the records. It is called exactly once for
	// an entry that was taken, in the order of taking, and must not block. With
	// a nil error they are committed; fate.Of(err) tells otherwise.
	Complete(at Placed, err error)
}

// Placed is where an entry's records stand in the log.
type Placed struct {
	Written  bool       // they are in the log, committed or not; else nothing else is set
	First    seq.Offset // of the entry's first record
	Position int64      // byte position of the batch they are in
}
