package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TruncateTo truncates the log to end, durably. It never truncates below the committed end
// (ErrBelowCommitted), and only between batches (errNotBoundary). An end at or past the log's
// changes nothing. After an error that is not a refusal the log has failed.
func (w *Writer) TruncateTo(end seq.Offset) error {
	l := w.log
	l.serial.Lock()
	defer l.serial.Unlock()
	if _, err := l.syncSerial(); err != nil { // so that only one segment is being written
		return err
	}
	l.wmu.Lock()
	err, out := w.admitLocked(), l.out
	l.wmu.Unlock()
	if out != nil {
		out.waitFill(l) // none starts while serial is held
	}
	if err != nil || end >= l.End() {
		return err
	}
	if end < l.CommittedEnd() {
		return fmt.Errorf("truncate to %d, committed end is %d: %w", end, l.CommittedEnd(), ErrBelowCommitted)
	}
	cut, err := w.planCut(end)
	if err != nil {
		return err
	}
	// The checkpoint is written first: the next Open must not miss what was truncated, and must not
	// take the remains of an interrupted truncation for damage.
	if err := noteCut(l, end); err != nil {
		return err
	}
	l.wmu.Lock()
	if err = w.admitLocked(); err == nil {
		l.truncations.Add(1)
		err = w.cutLocked(cut, end)
		l.truncations.Add(1)
	}
	l.wmu.Unlock()
	if err != nil {
		return err
	}
	if err := l.checkpointSerial(l.Start()); err != nil && !vfs.LacksRoom(err) {
		return l.fail(err)
	}
	return nil
}

// noteCut records that everything from end on is about to be truncated. Serial is held.
func noteCut(l *Log, end seq.Offset) error {
	note := noteOf(l, min(end, l.DurableEnd()), l.Start())
	note.cutting = true
	return note.write(l)
}

// cutPlan is where a truncation takes place.
type cutPlan struct {
	index   int   // of the segment that becomes the last
	size    int64 // its new size
	entries []indexEntry
	maxTime int64
}

// planCut finds the position of a batch boundary.
func (w *Writer) planCut(end seq.Offset) (cutPlan, error) {
	l := w.log
	view := l.view()
	i := len(view) - 1
	for i > 0 && view[i].base > end {
		i--
	}
	if i < 0 || view[i].base > end {
		return cutPlan{}, fmt.Errorf("truncate to %d: %w", end, errNotBoundary)
	}
	seg := view[i]
	plan := cutPlan{index: i, size: segmenthead.Bytes, maxTime: noTime}
	r := l.NewReader()
	defer r.Release()
	for off := seg.base; off < end; {
		b, err := r.batch(off)
		var damaged *CorruptionError
		if errors.As(err, &damaged) && damaged.Next <= end {
			off = damaged.Next
			continue
		}
		if err != nil {
			return cutPlan{}, fmt.Errorf("truncate to %d: %w", end, err)
		}
		if b.End() > end {
			return cutPlan{}, fmt.Errorf("truncate to %d, inside batch [%d,%d): %w", end, b.First(), b.End(), errNotBoundary)
		}
		at := b.Position() - seg.basePos + segmenthead.Bytes
		if n := len(plan.entries); n == 0 || at-plan.entries[n-1].position >= l.opts.IndexBytes {
			plan.entries = append(plan.entries, indexEntry{b.First(), at, plan.maxTime})
		}
		plan.maxTime = max(plan.maxTime, b.Timestamp())
		plan.size = at + int64(b.Size())
		off = b.End()
	}
	return plan, nil
}

// cutLocked carries out a truncation. Appends wait, readers continue below end.
func (w *Writer) cutLocked(plan cutPlan, end seq.Offset) error {
	l := w.log
	view := l.view()
	seg := view[plan.index]
	l.tail.cut(end)
	l.end.Store(uint64(end))
	l.durable.Store(min(l.durable.Load(), uint64(end)))
	l.endPos.Store(seg.position(plan.size))
	l.epochs.Store(new(cutEpochs(l.Epochs(), l.Start(), end)))
	l.segments.Store(new(slices.Clone(view[:plan.index+1])))
	seg.size.Store(plan.size)
	seg.end.Store(uint64(end))
	seg.maxTime.Store(plan.maxTime)
	for _, o := range append(l.rolled, l.out) { // all of them are at or after seg
		if o != nil {
			o.abandon()
		}
	}
	l.rolled, l.out = nil, nil
	l.synced.Store(nil)
	if err := cutFiles(l, view[plan.index+1:], seg); err != nil {
		return l.fail(err)
	}
	out, err := reopenOutput(l.fs, seg, l.opts.IndexBytes)
	if err != nil {
		return l.fail(err)
	}
	out.seg.pin(plan.entries)
	l.out = out
	return nil
}

// cutFiles removes segments, the last first, and truncates the one before them.
func cutFiles(l *Log, gone []*segment, seg *segment) error {
	for _, s := range slices.Backward(gone) {
		if err := s.remove(l.fs); err != nil {
			return err
		}
	}
	if err := l.fs.Remove(seg.indexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	f, err := l.fs.OpenReadWrite(seg.path)
	if err != nil {
		return err
	}
	err = f.Truncate(seg.size.Load())
	if err == nil {
		err = timedSync(l, f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
