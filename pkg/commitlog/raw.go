package commitlog

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/seq"
)

// AppendRaws appends several consecutive batches of another replica's log, as returned by ReadRaw,
// with one write per segment. All are verified before any is written: they must be intact, begin at the
// log's end, follow each other, and have epochs between the log's last and the writer's. It returns
// the appended batches: fewer than all only if there was no disk space for the rest, or the right
// to write was lost in between, and then with an error. The log retains raw, which must not be
// changed afterwards.
func (w *Writer) AppendRaws(raw []byte) ([]Batch, error) {
	r, err := decodeRun(raw)
	if err != nil {
		return nil, err
	}
	return w.appendRun(r)
}

// run is a sequence of batches that are consecutive in offsets and bytes.
type run struct {
	raw     []byte
	batches []Batch
}

// decodeRun verifies that bytes are exactly a run.
func decodeRun(raw []byte) (run, error) {
	r := run{raw: raw}
	for at := 0; at < len(raw); {
		b, err := Decode(raw[at:])
		if err != nil {
			return run{}, fmt.Errorf("at byte %d: %w", at, err)
		}
		if n := len(r.batches); n > 0 {
			before := r.batches[n-1]
			if b.First() != before.End() {
				return run{}, fmt.Errorf("batch starts at %d, previous batch ends at %d: %w", b.First(), before.End(), ErrNotContiguous)
			}
			if b.Epoch() < before.Epoch() {
				return run{}, fmt.Errorf("batch of epoch %d follows epoch %d: %w", b.Epoch(), before.Epoch(), errStaleEpoch)
			}
		}
		r.batches = append(r.batches, b)
		at += b.Size()
	}
	if len(r.batches) == 0 {
		return run{}, errEmptyBatch
	}
	return r, nil
}

// lastEpoch returns the highest epoch in a run.
func (r run) lastEpoch() seq.Epoch { return r.batches[len(r.batches)-1].Epoch() }

// split splits a run after the batches that fit into room bytes, but not before the end of the
// first.
func (r run) split(room int64) (head, rest run) {
	size, n := r.batches[0].Size(), 1
	for n < len(r.batches) && int64(size+r.batches[n].Size()) <= room {
		size += r.batches[n].Size()
		n++
	}
	return run{r.raw[:size:size], r.batches[:n]}, run{r.raw[size:], r.batches[n:]}
}

// appendRun appends a run, segment by segment.
func (w *Writer) appendRun(r run) (added []Batch, err error) {
	l := w.log
	l.wmu.Lock()
	defer l.wmu.Unlock()
	for len(r.batches) > 0 {
		if err := w.roomLocked(int64(r.batches[0].Size())); err != nil { // which begins a segment if necessary
			return added, err
		}
		var head run
		head, r = r.split(segmentBytes(l) - l.out.seg.size.Load())
		if len(head.batches) > 1 {
			if err := w.roomLocked(int64(len(head.raw))); err != nil {
				return added, err
			}
		}
		// Reserving room may have waited, and others may have appended meanwhile.
		if err := w.fitsLocked(head, r); err != nil {
			return added, err
		}
		if err := w.writeLocked(head.raw); err != nil {
			return added, err
		}
		for _, b := range head.batches {
			added = append(added, w.enterLocked(b))
		}
	}
	return added, nil
}

// fitsLocked reports whether a run, and what follows it, continues the log's end.
func (w *Writer) fitsLocked(head, rest run) error {
	l := w.log
	first := head.batches[0]
	if first.First() != l.End() {
		return fmt.Errorf("batch starts at %d, log ends at %d: %w", first.First(), l.End(), ErrNotContiguous)
	}
	last := head.lastEpoch()
	if len(rest.batches) > 0 {
		last = rest.lastEpoch()
	}
	if first.Epoch() < l.LastEpoch() || last > w.epoch {
		return fmt.Errorf("batches of epochs %d to %d, log at epoch %d, writer at epoch %d: %w", first.Epoch(), last, l.LastEpoch(), w.epoch, errStaleEpoch)
	}
	return nil
}
