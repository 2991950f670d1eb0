package commitlog

import (
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Origin is the beginning of a log that does not begin at offset 0.
type Origin struct {
	// Start is the first offset that will be appended.
	Start seq.Offset
	// Position is its byte position in the virtual log.
	Position int64
	// Before is the epoch of the batch that ends at Start; 0: unknown.
	Before seq.Epoch
}

// Reset durably removes the whole log and restarts it at an origin, for a replica whose next
// offset the leader's log no longer holds. It never starts below the committed end
// (ErrBelowCommitted), but may start beyond the log's end. Start, end, durable and committed
// end are the origin's afterwards, and the writer stays valid. An error marked Refused means
// that nothing has changed. After any other error the log may have failed (see Failed); if not,
// the log is reset, and a leftover file is removed by the next Open.
func (w *Writer) Reset(o Origin) error {
	if o.Start > seq.MaxOffset || o.Position < 0 {
		return errInvalidOrigin
	}
	l := w.log
	l.serial.Lock()
	defer l.serial.Unlock()
	if _, err := l.syncSerial(); err != nil { // so that only one segment is being written
		return err
	}
	l.wmu.Lock()
	out := l.out
	l.wmu.Unlock()
	if out != nil {
		out.waitFill(l) // none starts while serial is held
	}
	l.wmu.Lock()
	err := w.admitResetLocked(o)
	l.wmu.Unlock()
	if err != nil {
		return err
	}
	// Segments at or after the new start are removed first, as by a truncation: they could be taken
	// for a part of the new log.
	if o.Start < l.End() {
		if err := noteCut(l, o.Start); err != nil {
			return refuse("record log reset", err)
		}
	}
	old, err := w.reset(o)
	if err != nil {
		return err
	}
	for _, s := range old {
		if err := s.remove(l.fs); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}

// admitResetLocked checks whether the writer may reset the log to an origin.
func (w *Writer) admitResetLocked(o Origin) error {
	if err := w.admitLocked(); err != nil {
		return err
	}
	if committed := w.log.CommittedEnd(); o.Start < committed {
		return fmt.Errorf("reset log to %d, committed end is %d: %w", o.Start, committed, ErrBelowCommitted)
	}
	if o.Before > w.epoch {
		return fmt.Errorf("reset log after epoch %d, writer is at epoch %d: %w", o.Before, w.epoch, errStaleEpoch)
	}
	return nil
}

// reset records and applies the origin. It returns the segments whose files are to be removed.
// Appends wait, and so does a Writer that would take over.
func (w *Writer) reset(o Origin) (old []*segment, err error) {
	l := w.log
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if err := w.admitResetLocked(o); err != nil {
		return nil, err
	}
	if !l.madeDir {
		if err := vfs.MkdirAllSynced(l.fs, l.dir); err != nil {
			return nil, refuse("create log directory", err)
		}
		l.madeDir = true
	}
	old = l.view()
	cut := len(old)
	for cut > 0 && old[cut-1].base >= o.Start {
		cut--
	}
	if err := removeBackwards(l, old[cut:]); err != nil {
		return nil, l.fail(err)
	}
	note := checkpoint{
		start: o.Start, durable: o.Start, durablePos: o.Position, committed: o.Start,
		epoch: l.epoch, before: o.Before,
	}
	if err := note.write(l); err != nil {
		if vfs.LacksRoom(err) && cut == len(old) {
			return nil, refuse("record log reset", err)
		}
		return nil, l.fail(err)
	}
	l.truncations.Add(1)
	defer l.truncations.Add(1)
	for _, out := range append(l.rolled, l.out) {
		if out != nil {
			out.abandon()
			out.seg.unpin()
		}
	}
	l.rolled, l.out = nil, nil
	l.synced.Store(nil)
	o.begin(l)
	return old[:cut], nil
}

// begin empties a log in memory. The start is set first, so that concurrent readers ask for offsets
// below it or not committed yet.
func (o Origin) begin(l *Log) {
	l.tail.drop()
	l.before.Store(uint64(o.Before))
	l.start.Store(uint64(o.Start))
	l.end.Store(uint64(o.Start))
	l.startPos.Store(o.Position)
	l.endPos.Store(o.Position)
	l.durable.Store(uint64(o.Start))
	l.segments.Store(new([]*segment))
	l.epochs.Store(new([]EpochStart))
	l.Commit(o.Start)
}

// removeBackwards removes segments, the last first, so that a crash leaves no gap.
func removeBackwards(l *Log, gone []*segment) error {
	for _, s := range slices.Backward(gone) {
		if err := s.remove(l.fs); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return l.fs.SyncDir(l.dir)
}

// OriginOf returns where a log begins, for a replica that is copied again.
func OriginOf(l *Log) Origin {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	return Origin{Start: l.Start(), Position: l.startPos.Load(), Before: seq.Epoch(l.before.Load())}
}
