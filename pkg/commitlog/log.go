package commitlog

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/turn"
	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Log is the log of one replica of one partition. Its methods are safe for concurrent use. No
// goroutine outlives a call, except that a sync may leave one filling blocks, for which Close
// waits.
type Log struct {
	fs   vfs.FS
	dir  string
	opts Options

	start, end, durable, committed atomic.Uint64
	startPos, endPos               atomic.Int64 // byte positions in the virtual log

	segments atomic.Pointer[[]*segment]       // by offset; replaced, never changed; swapped under wmu
	epochs   atomic.Pointer[[]EpochStart]     // replaced or appended to under wmu
	before   atomic.Uint64                    // epoch of the batch that ended at start; 0: unknown
	failure  atomic.Pointer[error]            // the error that failed the log
	unsure   seq.Offset                       // up to this offset damage before Open may have removed epochs from the history
	opened   atomic.Pointer[commitnote.Noted] // content of the commit note at Open
	// truncations is odd during a truncation. When it changes, readers drop what they read ahead,
	// because it may have been truncated and written again.
	truncations atomic.Uint64
	tail        tail
	counts      counters
	note        commitNote
	synced      atomic.Pointer[output] // which synced the durable end; nil: none yet

	bound atomic.Int64 // Retention.MaxBytes of the last Retain; 0: none

	// serial admits one of Sync, TruncateTo, Reset, Retain, Checkpoint and Close at a time. They
	// hold it while they wait for the disk; appends and reads do not use it. It is taken before
	// wmu.
	serial turn.Turn
	noted  checkpoint // guarded by serial: content of the checkpoint file

	// wmu makes check and append one step: it is held during an append's one write.
	wmu     sync.Mutex // guards all below
	writer  *Writer
	epoch   seq.Epoch // the highest in the log or requested
	out     *output   // the current segment, nil until the first append
	rolled  []*output // complete segments that are not synced yet
	madeDir bool
	closed  bool
}

type counters struct{ appends, records, bytes, syncs atomic.Int64 }

// Stats is a log's state and its counters since it was opened.
type Stats struct {
	Segments      int
	Bytes         int64 // of batches between start and end
	End           seq.Offset
	DurableEnd    seq.Offset
	Appends       int64 // batches
	Records       int64 // in them
	AppendedBytes int64
	Syncs         int64
}

// Open opens the log in a directory and recovers it after a crash. For a new log it creates
// nothing on disk. Recovery returns what was found and done; the owner must check Damaged. An
// error marked fate.Corrupt means that the log is beyond recovery; nothing was changed.
func Open(fsys vfs.FS, dir string, o Options) (*Log, Recovery, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, Recovery{}, err
	}
	a := &analysis{fs: fsys, dir: dir, indexBytes: o.IndexBytes, alternating: o.Alternating, unproven: o.CommittedMayBeLost, synced: o.OnDisk, buffers: o.Buffers, names: o.Names}
	if err := a.run(); err != nil {
		return nil, Recovery{}, fmt.Errorf("open log %s: %w", dir, err)
	}
	if r := a.report(); o.BeforeRepair != nil && !r.Clean() {
		if err := o.BeforeRepair(r); err != nil {
			return nil, Recovery{}, fmt.Errorf("open log %s: %w", dir, err)
		}
	}
	if err := a.repair(); err != nil {
		return nil, Recovery{}, fmt.Errorf("open log %s: %w", dir, err)
	}
	l := newLog(a, o)
	if a.note.cutting { // the truncation is complete
		if err := l.Checkpoint(0); err != nil && !vfs.LacksRoom(err) {
			return nil, Recovery{}, fmt.Errorf("open log %s: %w", dir, err)
		}
	}
	// Batches that revealed a committed end would not be read again once their segments have an
	// index.
	l.note.keep(l)
	return l, a.report(), nil
}

// newLog returns the log that was found on disk.
func newLog(a *analysis, o Options) *Log {
	l := &Log{serial: turn.New(), fs: a.fs, dir: a.dir, opts: o, tail: tail{limit: o.TailBytes, shared: o.Tails}}
	segments := make([]*segment, 0, len(a.segments))
	for _, f := range a.segments {
		s := newSegment(f.path, &f.contents)
		if f.short {
			s.pin(f.entries)
		}
		segments = append(segments, s)
	}
	l.startPos.Store(a.endPos)
	if len(segments) > 0 {
		l.startPos.Store(segments[0].basePos)
		l.segments.Store(&segments)
		l.epochs.Store(new(a.epochs()))
	}
	l.endPos.Store(a.endPos)
	l.start.Store(uint64(a.start))
	l.before.Store(uint64(a.note.before))
	l.end.Store(uint64(a.end))
	l.durable.Store(uint64(a.end))
	l.committed.Store(uint64(a.committedEnd()))
	if len(a.report().Damaged) > 0 {
		l.unsure = a.end
	}
	if a.commitNote.Committed <= a.end {
		l.opened.Store(&a.commitNote)
	}
	l.note.noted, l.note.slot = min(a.end, a.commitNote.Committed), a.commitNote.Next
	l.epoch = max(a.lastEpoch, a.note.epoch)
	l.noted = a.note
	l.madeDir = len(a.segments) > 0 || a.noted
	return l
}

// Start returns the first offset of the log; retention advances it.
func (l *Log) Start() seq.Offset { return seq.Offset(l.start.Load()) }

// End returns one past the last appended offset.
func (l *Log) End() seq.Offset { return seq.Offset(l.end.Load()) }

// DurableEnd returns one past the last offset that is certainly on disk.
func (l *Log) DurableEnd() seq.Offset { return seq.Offset(l.durable.Load()) }

// CommittedEnd returns one past the last committed offset. While the log is open it does not move back. After a kill, if
// the redo journal held the last batches, and after a loss of power Open may find a lower one: at least the one that the
// last batch carries.
func (l *Log) CommittedEnd() seq.Offset { return seq.Offset(l.committed.Load()) }

// Commit advances the committed end to end. A lower end has no effect; one past the log's end
// panics. The new end is written to the commit note, without a sync, before it becomes visible,
// or later while the redo journal still holds the data.
func (l *Log) Commit(end seq.Offset) {
	if end > l.End() {
		panic(fmt.Sprintf("BUG: commit to %d past the log end, %d", end, l.End()))
	}
	l.note.mu.Lock()
	defer l.note.mu.Unlock()
	if end > l.CommittedEnd() {
		l.note.writeLocked(l, end)
		l.committed.Store(uint64(end))
	}
}

// Epochs returns the epochs of the log and where each begins, in order. It must not be changed.
func (l *Log) Epochs() []EpochStart {
	if p := l.epochs.Load(); p != nil {
		return *p
	}
	return nil
}

// LastEpoch returns the epoch of the last batch, even if retention has removed it. It is 0 if
// there was none or if the checkpoint that recorded it was lost.
func (l *Log) LastEpoch() seq.Epoch {
	epochs := l.Epochs()
	if len(epochs) == 0 {
		return seq.Epoch(l.before.Load())
	}
	return epochs[len(epochs)-1].Epoch
}

// epochBefore returns the epoch of the batch that ends at an offset at or above the log's start, as
// far as known.
func epochBefore(l *Log, off seq.Offset) seq.Epoch {
	if e := lastEpochBefore(l.Epochs(), off); e != 0 {
		return e
	}
	return seq.Epoch(l.before.Load())
}

// Bytes returns the size of the batches in the log.
func (l *Log) Bytes() int64 { return l.endPos.Load() - l.startPos.Load() }

// EndPosition returns the byte position in the virtual log at which the next batch will begin.
func (l *Log) EndPosition() int64 { return l.endPos.Load() }

// Stats returns the log's state.
func (l *Log) Stats() Stats {
	return Stats{
		Segments: len(l.view()), Bytes: l.Bytes(),
		End: l.End(), DurableEnd: l.DurableEnd(),
		Appends: l.counts.appends.Load(), Records: l.counts.records.Load(), AppendedBytes: l.counts.bytes.Load(),
		Syncs: l.counts.syncs.Load(),
	}
}

// ReleaseTail releases the memory of the log's tail and the file of the commit note, for a log
// that has been idle for a while.
func (l *Log) ReleaseTail() {
	l.tail.drop()
	l.note.release()
}

// Failed returns the error that failed the log, which wraps ErrFailed, or nil.
func (l *Log) Failed() error {
	if p := l.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail fails the log. It returns the error for the caller, which is uncertain.
func (l *Log) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	l.failure.CompareAndSwap(nil, &err)
	return err
}

// refuseFailed returns the refusal of a failed log, or nil.
func (l *Log) refuseFailed() error { return fate.Mark(l.Failed(), fate.Refused) }

func (l *Log) view() []*segment {
	if p := l.segments.Load(); p != nil {
		return *p
	}
	return nil
}

// Checkpoint records the durable and committed ends on disk, which bounds what Open reads after
// a crash. It costs two syncs unless nothing has changed, or fewer than least bytes were
// appended since the last one.
func (l *Log) Checkpoint(least int64) error {
	l.serial.Lock()
	defer l.serial.Unlock()
	if least > 0 && l.endPos.Load()-l.noted.durablePos < least {
		return nil
	}
	return l.checkpointSerial(l.Start())
}

// checkpointSerial writes the checkpoint for a log that will start at start.
func (l *Log) checkpointSerial(start seq.Offset) error {
	if err := l.refuseFailed(); err != nil {
		return err
	}
	l.wmu.Lock()
	made := l.madeDir
	l.wmu.Unlock()
	note := noteOf(l, l.DurableEnd(), start)
	if !made || note == l.noted {
		return nil
	}
	return note.write(l)
}

// noteOf returns the checkpoint of a log that will start at start and has a durable end. Serial is
// held.
func noteOf(l *Log, durable, start seq.Offset) checkpoint {
	l.wmu.Lock()
	epoch := l.epoch
	l.wmu.Unlock()
	durable = max(durable, start)
	return checkpoint{
		start: start, durable: durable, durablePos: positionOf(l.view(), durable, l.endPos.Load()),
		committed: max(start, min(l.CommittedEnd(), durable)),
		epoch:     epoch, before: epochBefore(l, start),
	}
}

// write replaces the checkpoint of a log. Serial is held.
func (c checkpoint) write(l *Log) error {
	if err := vfs.WriteFileSynced(l.fs, filepath.Join(l.dir, checkpointName), c.encode()); err != nil {
		return fmt.Errorf("checkpoint of log %s: %w", l.dir, err)
	}
	l.noted = c
	return nil
}

// positionOf returns the byte position of a durable end as far as known without reading: exact at
// the end of a segment, otherwise that of the log's end. Positions continue from it after the loss
// of segments.
func positionOf(view []*segment, off seq.Offset, logEnd int64) int64 {
	for _, s := range view {
		if s.endOffset() >= off {
			return s.endPosition()
		}
	}
	return logEnd
}

// Close syncs the log, completes its index, writes the checkpoint, and closes the files. It is
// idempotent. All appends are durable unless it returns an error.
func (l *Log) Close() error {
	l.serial.Lock()
	defer l.serial.Unlock()
	_, err := l.syncSerial()
	l.wmu.Lock()
	if l.closed {
		l.wmu.Unlock()
		return nil
	}
	l.closed = true
	l.writer = nil
	if err == nil {
		err = reopenPinnedLocked(l)
	}
	out, rolled := l.out, l.rolled
	l.out, l.rolled = nil, nil
	l.wmu.Unlock()
	for _, o := range append(rolled, out) {
		if o == nil {
			continue
		}
		o.waitFill(l)
		if err == nil && l.Failed() == nil {
			err = o.complete(l)
		} else {
			o.abandon()
		}
	}
	if err == nil && l.Failed() == nil {
		err = l.checkpointSerial(l.Start())
	}
	l.tail.drop()
	l.opts.Cache.dropLog(l, seq.MaxOffset+1)
	l.note.close()
	return err
}

// reopenPinnedLocked opens the last segment for writing if it is incomplete and not open, so that a
// writer that continues after it completes it.
func reopenPinnedLocked(l *Log) error {
	view := l.view()
	if l.out != nil || len(view) == 0 || !view[len(view)-1].isPinned() || l.Failed() != nil {
		return nil
	}
	out, err := reopenOutput(l.fs, view[len(view)-1], l.opts.IndexBytes)
	if err == nil {
		l.out = out
	}
	return err
}
