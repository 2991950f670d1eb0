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

// Place is a reader's place in a log. It is not safe for concurrent use.
type Place struct {
	reader  *commitlog.Reader
	batch   commitlog.Batch
	records commitlog.Records
	end     int64      // the batch's EndPosition
	next    seq.Offset // of the record that records.Next would return
	have    bool       // batch and records are set
	rested  rested
}

// New returns a place in a log. Its memory counts against the clients' memory
// budget.
func New(log *commitlog.Log) Place { return Place{reader: log.NewReader().Paid()} }

// Batch returns the batch of the last record.
func (r *Place) Batch() commitlog.Batch { return r.batch }

// Holds reports whether the record at an offset can be returned without reading the
// log.
func (r *Place) Holds(o seq.Offset) bool { return r.have && r.batch.First() <= o && o < r.batch.End() }

// PositionOf returns the position in the log of the last record, whose size is given.
func (r *Place) PositionOf(bytes int) int64 { return r.records.PositionBefore(r.end, bytes) }

// rested is the place in a batch that was released.
type rested struct {
	first seq.Offset
	sum   uint32     // of the batch
	next  seq.Offset // of the record that would have been returned next
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
		r.batch, r.end, r.have = b, b.EndPosition(), true
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

// Rest releases a large batch until the next read: the client may be slow to read what
// it was sent, and there may be many such clients.
func (r *Place) Rest() {
	if !r.reader.Rest(r.batch, r.next) && r.have {
		r.rested = rested{r.batch.First(), r.batch.Checksum(), r.next, r.records.Left()}
		r.drop()
	}
}

// Release frees memory that is needed only while reading.
func (r *Place) Release() {
	r.drop()
	r.reader.Release()
}

func (r *Place) drop() {
	r.have, r.batch, r.records = false, commitlog.Batch{}, commitlog.Records{}
}
