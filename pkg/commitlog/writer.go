package commitlog

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Writer is the right to change a log, for one epoch. Only the latest Writer is valid: others are
// refused with ErrRevoked. Its methods are safe for concurrent use.
type Writer struct {
	log    *Log
	epoch  seq.Epoch
	synced atomic.Bool // see SyncsEach
}

// SyncsEach reports whether each append is synced before it is reported. Then it need not
// survive a process crash before the sync: see vfs.WriteDeferred.
func (w *Writer) SyncsEach(on bool) { w.synced.Store(on) }

// Writer returns the right to write in epoch e and revokes the previous one. It refuses an epoch
// below the highest in the log or requested before with ErrFenced.
func (l *Log) Writer(e seq.Epoch) (*Writer, error) {
	if err := l.refuseFailed(); err != nil {
		return nil, err
	}
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if e < l.epoch {
		return nil, fmt.Errorf("new writer of epoch %d, log at epoch %d: %w", e, l.epoch, ErrFenced)
	}
	l.epoch = e
	l.writer = &Writer{log: l, epoch: e}
	return l.writer, nil
}

// Epoch returns the epoch in which the writer appends.
func (w *Writer) Epoch() seq.Epoch { return w.epoch }

// admitLocked returns whether the writer may change the log.
func (w *Writer) admitLocked() error {
	l := w.log
	switch {
	case l.closed:
		return ErrClosed
	case l.writer != w && l.epoch > w.epoch:
		return fmt.Errorf("%w: %w", ErrRevoked, ErrFenced)
	case l.writer != w:
		return ErrRevoked
	}
	return l.refuseFailed()
}

// Append appends a batch with one write. It is durable only after Sync. The builder is reset for
// reuse; after a refusal it is unchanged.
func (w *Writer) Append(b *Builder, timestamp int64) (Batch, error) {
	if b.Count() == 0 {
		return Batch{}, errEmptyBatch
	}
	if b.Size() > maxBatchBytes {
		return Batch{}, errBatchTooBig
	}
	l := w.log
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if err := w.roomLocked(int64(b.Size())); err != nil {
		return Batch{}, err
	}
	raw := b.seal(place{w.epoch, l.End(), l.CommittedEnd()}, timestamp)
	if err := w.writeLocked(raw); err != nil {
		return Batch{}, err
	}
	return w.enterLocked(Batch{raw: b.spend(raw)}), nil
}

// roomLocked admits the writer and makes room for n bytes in the current segment, and begins a new
// one if they do not fit. It releases the lock while it waits for a fill to end.
func (w *Writer) roomLocked(n int64) error {
	l := w.log
	for {
		if err := w.admitLocked(); err != nil {
			return err
		}
		if err := w.outputLocked(n); err != nil {
			return w.refuseAppend("create segment", err)
		}
		o := l.out
		end := o.seg.size.Load() + n
		if filling := o.filling; filling != nil && end > o.filled {
			l.wmu.Unlock()
			<-filling
			l.wmu.Lock()
			continue
		}
		if err := o.reserve(end, segmentBytes(l)); err != nil {
			if vfs.LacksRoom(err) {
				return w.refuseAppend("reserve disk space", err)
			}
			return l.fail(err)
		}
		return nil
	}
}

// refuseAppend marks the error of an append as a refusal, and reports it.
func (w *Writer) refuseAppend(doing string, err error) error {
	if told := w.log.opts.OnRefused; told != nil && !vfs.OutOfFiles(err) {
		told(err)
	}
	return refuse(doing, err)
}

// refuse marks an error as a refusal: nothing was changed.
func refuse(doing string, err error) error {
	if vfs.OutOfFiles(err) {
		return fmt.Errorf("%s: %w: %w", doing, failure.NoFiles, err)
	}
	if vfs.LacksRoom(err) {
		return fmt.Errorf("%s: %w: %w", doing, failure.NoSpace, err)
	}
	return fate.Mark(fmt.Errorf("%s: %w", doing, err), fate.Refused)
}

// The segments of a log with a bounded size are a fraction of the bound, because whole segments are
// removed, but not smaller than leastSegment.
const (
	boundParts   = 4
	leastSegment = 64 << 10
)

// segmentBytes is where a segment of a log ends and the next begins.
func segmentBytes(l *Log) int64 {
	if bound := l.bound.Load(); bound > 0 {
		return min(l.opts.SegmentBytes, max(bound/boundParts, leastSegment))
	}
	return l.opts.SegmentBytes
}

// outputLocked ensures that a segment is open with room for n more bytes.
func (w *Writer) outputLocked(n int64) error {
	l := w.log
	view := l.view()
	var last *segment
	if len(view) > 0 {
		last = view[len(view)-1]
	}
	full := last == nil || last.endOffset() != l.End() ||
		last.size.Load() > segmenthead.Bytes && last.size.Load()+n > segmentBytes(l)
	if !full {
		if l.out != nil {
			return nil
		}
		out, err := reopenOutput(l.fs, last, l.opts.IndexBytes)
		if err == nil {
			l.out = out
		}
		return err
	}
	if !l.madeDir {
		if err := vfs.MkdirAllSynced(l.fs, l.dir); err != nil {
			return err
		}
		l.madeDir = true
	}
	if err := reopenPinnedLocked(l); err != nil {
		return err
	}
	out, err := createOutput(l.fs, l.dir, l.End(), l.endPos.Load(), minGrow)
	if err != nil {
		return err
	}
	if l.out != nil {
		l.rolled = append(l.rolled, l.out)
	}
	l.out = out
	l.segments.Store(new(append(slices.Clone(view), out.seg)))
	if bound := l.bound.Load(); bound > 0 && l.Bytes() > bound && l.opts.OnExcess != nil {
		l.opts.OnExcess()
	}
	return nil
}

// writeLocked writes sealed batches, for which room was made, after the last one.
func (w *Writer) writeLocked(raw []byte) error {
	undone, err := w.log.out.write(w.log, raw, w.synced.Load())
	switch {
	case err == nil:
		return nil
	case undone:
		return w.refuseAppend("appending", err)
	default:
		return w.log.fail(err)
	}
}

// enterLocked makes a written batch the log's last, and returns it with its position.
func (w *Writer) enterLocked(b Batch) Batch {
	l, o := w.log, w.log.out
	at := o.seg.size.Load()
	b.position = o.seg.position(at)
	if history := l.Epochs(); len(history) == 0 || b.Epoch() > l.LastEpoch() {
		l.epochs.Store(new(addEpoch(slices.Clone(history), b)))
	}
	o.seg.addBatch(b, at, l.opts.IndexBytes)
	l.tail.push(b)
	l.endPos.Store(b.position + int64(b.Size()))
	l.end.Store(uint64(b.End()))
	l.counts.appends.Add(1)
	l.counts.records.Add(int64(b.Count()))
	l.counts.bytes.Add(int64(b.Size()))
	return b
}

// Sync makes all appends before the call durable and returns the durable end. Appends may
// continue during the sync. Concurrent calls share one sync. After an error the log has failed
// and its content on disk is uncertain.
func (w *Writer) Sync() (seq.Offset, error) {
	l := w.log
	l.wmu.Lock()
	err := w.admitLocked()
	target := l.End()
	l.wmu.Unlock()
	if err != nil {
		return l.DurableEnd(), fate.Mark(err, fate.Uncertain)
	}
	if l.DurableEnd() >= target {
		return l.DurableEnd(), nil
	}
	l.serial.Lock()
	defer l.serial.Unlock()
	if l.DurableEnd() >= target { // another sync covered it meanwhile
		return l.DurableEnd(), nil
	}
	return l.syncSerial()
}

// syncSerial syncs everything that was appended.
func (l *Log) syncSerial() (seq.Offset, error) {
	if err := l.Failed(); err != nil {
		return l.DurableEnd(), err
	}
	l.wmu.Lock()
	target, out, rolled := l.End(), l.out, l.rolled
	l.rolled = nil
	var covered int64
	if out != nil {
		covered, out.unsynced = out.unsynced, 0
	}
	l.wmu.Unlock()
	for _, o := range rolled {
		o.waitFill(l)
		if err := o.complete(l); err != nil {
			return l.DurableEnd(), err
		}
	}
	if out != nil && covered > 0 {
		if err := out.sync(l); err != nil {
			return l.DurableEnd(), err
		}
	}
	l.synced.Store(out)
	l.durable.Store(max(l.durable.Load(), uint64(target)))
	if len(rolled) > 0 {
		if err := l.checkpointSerial(l.Start()); err != nil && !vfs.LacksRoom(err) {
			return l.DurableEnd(), l.fail(err)
		}
	}
	out.fillAhead(l, covered)
	return l.DurableEnd(), nil
}
