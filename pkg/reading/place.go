// Package reading reads a log record by record on behalf of clients: a Place for messages, Keys for
// their keys. It buffers one batch at most and drops large ones between two uses. It does not
// interpret what it reads.
package reading

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Place is where someone reads in a log. It is not for concurrent use.
type Place struct {
	reader  *commitlog.Reader
	batch   commitlog.Batch
	records commitlog.Records
	next    seq.Offset // that records.Next would return
	have    bool       // batch and records are set
	rested  rested
}

// New returns a place in a log, which pays for its memory.
func New(log *commitlog.Log) Place { return Place{reader: log.NewReader().Paid()} }

// Batch returns the batch of the record that was read last.
func (r *Place) Batch() commitlog.Batch { return r.batch }

// Has reports whether a batch is at hand.
func (r *Place) Has() bool { return r.have }

// Holds reports whether the record of an offset can be had without a read of the log.
func (r *Place) Holds(o seq.Offset) bool { return r.have && r.batch.First() <= o && o < r.batch.End() }

// PositionOf returns where in the log the record stands that was read last, of so many bytes.
func (r *Place) PositionOf(bytes int) int64 { return r.batch.PositionOf(&r.records, bytes) }

// rested is where the records of a batch were when it was given up.
type rested struct {
	first seq.Offset
	sum   uint32     // of the batch
	next  seq.Offset // that the records would have returned
	left  int        // bytes of the batch from next on
}

// Record returns the record of an offset. It is valid until the next call of any method.
func (r *Place) Record(o seq.Offset) ([]byte, error) {
	if !r.have || o < r.batch.First() || o >= r.batch.End() {
		r.drop()
		b, err := r.reader.Batch(o)
		if err != nil {
			return nil, err
		}
		r.batch, r.have = b, true
		if r.rested.left > 0 && b.First() == r.rested.first && b.Checksum() == r.rested.sum {
			r.records, r.next = b.Resume(r.rested.next, r.rested.left), r.rested.next
		} else {
			r.records, r.next = b.Records(o), o
		}
	}
	if o != r.next {
		r.records = r.batch.Records(o)
	}
	_, raw, ok := r.records.Next()
	if !ok {
		r.have = false
		return nil, fmt.Errorf("offset %d: %w", o, record.ErrInvalid)
	}
	r.next = o + 1
	return raw, nil
}

// Rest gives up a batch that is large, until there is more to take: the client may not
// read for long what it is sent, and there may be many of its kind.
func (r *Place) Rest() {
	if !r.reader.Rest(r.batch, r.next) && r.have {
		r.rested = rested{r.batch.First(), r.batch.Checksum(), r.next, r.records.Left()}
		r.drop()
	}
}

// Release gives up memory that is only needed while there is something to read.
func (r *Place) Release() {
	r.drop()
	r.reader.Release()
}

func (r *Place) drop() {
	r.have, r.batch, r.records = false, commitlog.Batch{}, commitlog.Records{}
}
