package commitlog

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Retention defines which segments may be deleted.
type Retention struct {
	// Floor is the lowest offset that is still needed.
	Floor seq.Offset
	// Hold is the lowest offset that may be needed again; nil if none. It counts like Floor.
	Hold *seq.Offset
	// MaxAge is how long a segment below the floor is kept after its last batch; 0 means not at
	// all.
	MaxAge time.Duration
	// Now is the wall clock time used for ages.
	Now time.Time
	// Moment is the present by the monotonic clock: a segment is no older than the time since this
	// process appended to it, whatever a leader's wall clock stamped. Zero: only timestamps count.
	Moment time.Time
	// MaxBytes is the size above which the oldest segments are deleted even if they are needed;
	// 0 means no limit. The last segment is never deleted for its size, so segments end at a
	// quarter of MaxBytes.
	MaxBytes int64
	// Share is the intended maximum size, for which nothing is deleted; 0 if none. Without
	// MaxBytes, segments end at a quarter of it.
	Share int64
	// Last permits deleting the last segment too, once all of it is committed, durable, below
	// the floor and old enough. It is replaced by an empty one, which costs about three syncs
	// and pays off if space is needed or the log is idle.
	Last bool
}

// Bound makes the segments of a log end at a quarter of MaxBytes, or without it of Share, from now
// on. Retain does so too; Bound is for the time before the first Retain.
func (r Retention) Bound(l *Log) { l.bound.Store(cmp.Or(r.MaxBytes, r.Share)) }

// Retain deletes the oldest segments that may be deleted and returns their number. Uncommitted
// data is kept. Without disk space to replace the last segment, it deletes the others; the next call
// replaces it. Readers inside a deleted segment may read it to its end. Offsets and positions
// of later appends continue, even if everything was deleted.
func (l *Log) Retain(r Retention) (dropped int, err error) {
	l.serial.Lock()
	defer l.serial.Unlock()
	if err := l.refuseFailed(); err != nil {
		return 0, err
	}
	r.Bound(l)
	run := retaining{l, r}
	if err := run.completeRolled(); err != nil {
		return 0, err
	}
	retired := run.retireLast()
	if retired != nil && !vfs.LacksRoom(retired) {
		return 0, retired
	}
	view := l.view()
	n := r.expired(view, min(l.CommittedEnd(), l.DurableEnd()), l.Bytes())
	if n == 0 {
		return 0, retired
	}
	// The checkpoint is written before the files are removed: after a crash in between, the
	// remaining files are known to be removed soon, and no gap is taken for damage.
	start := view[n].base
	if err := run.storeStart(start, view[:n]); err != nil {
		return 0, err
	}
	l.wmu.Lock()
	rest := slices.Clone(l.view()[n:])
	l.before.Store(uint64(epochBefore(l, start)))
	l.start.Store(uint64(start))
	l.startPos.Store(rest[0].basePos)
	l.segments.Store(&rest)
	l.epochs.Store(new(cutEpochs(l.Epochs(), start, l.End())))
	if start == l.End() {
		l.tail.drop()
	}
	l.wmu.Unlock()
	l.opts.Cache.dropLog(l, start)
	for _, s := range view[:n] {
		if err := s.remove(l.fs); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, l.fs.SyncDir(l.dir)
}

// retaining is a retention in progress. Serial is held.
type retaining struct {
	log *Log
	ask Retention
}

// completeRolled completes the segments that are no longer written: an open file would keep its
// space after it was removed.
func (r retaining) completeRolled() error {
	r.log.wmu.Lock()
	n := len(r.log.rolled)
	r.log.wmu.Unlock()
	if n == 0 {
		return nil
	}
	_, err := r.log.syncSerial()
	return err
}

// storeStart records where the log will start. On a full disk it frees space by removing the
// indexes of the segments to be removed: they could be rebuilt.
func (r retaining) storeStart(start seq.Offset, going []*segment) error {
	err := r.log.checkpointSerial(start)
	if !vfs.LacksRoom(err) {
		return err
	}
	for _, s := range going {
		if rerr := r.log.fs.Remove(s.indexPath()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return errors.Join(err, rerr)
		}
	}
	return r.log.checkpointSerial(start)
}

// expired returns how many of the oldest segments of a log of the given bytes may be removed.
// Segments with offsets at or after stays, and the last segment, may not.
func (r Retention) expired(view []*segment, stays seq.Offset, bytes int64) int {
	n := 0
	for ; n < len(view)-1; n++ {
		next := view[n+1]
		if next.base > stays {
			break
		}
		if !r.finished(view[n:], next.base) && (r.MaxBytes == 0 || bytes <= r.MaxBytes) {
			break
		}
		bytes -= next.basePos - view[n].basePos
	}
	return n
}

// OldEnd returns the end of the part of a log in which every segment is older than age, or begins
// at least bytes before the log's end; 0 disables either. It returns the log's start if there is
// none. The last segment is never part of it. Only Now and Moment of the retention count.
func (r Retention) OldEnd(l *Log, age time.Duration, bytes int64) seq.Offset {
	r.MaxAge = age
	view, end := l.view(), l.Start()
	for n := 0; n < len(view)-1; n++ {
		next := view[n+1]
		old := age > 0 && r.old(view[n:]) || bytes > 0 && l.endPos.Load()-next.basePos >= bytes
		if !old || next.base > l.CommittedEnd() {
			break
		}
		end = next.base
	}
	return end
}

// finished reports whether the first of some segments, which ends at end, is no longer needed.
func (r Retention) finished(view []*segment, end seq.Offset) bool {
	return end <= r.Floor && (r.Hold == nil || end <= *r.Hold) && (r.MaxAge == 0 || r.old(view))
}

// old reports whether the first of some segments is older than the age. One of which no batch can be
// read has no timestamp, and counts as old as the next one.
func (r Retention) old(view []*segment) bool {
	i := slices.IndexFunc(view, func(s *segment) bool { return s.maxTime.Load() != noTime })
	return i >= 0 && r.Now.UnixNano()-view[i].maxTime.Load() >= int64(r.MaxAge) && !r.young(view[i])
}

// young reports whether this process has appended to a segment within the age.
func (r Retention) young(s *segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !r.Moment.IsZero() && !s.grown.IsZero() && r.Moment.Sub(s.grown) < r.MaxAge
}

// retireLast begins a segment at the log's end if the last one may be removed, so that it is no
// longer the last. The new one, with the offset and the position at which the log continues, is on
// disk before anything is removed: they do not depend only on the checkpoint.
func (r retaining) retireLast() error {
	if !r.ask.Last || !r.lastFinished() {
		return nil
	}
	r.log.wmu.Lock()
	last := r.log.out
	r.log.wmu.Unlock()
	if last != nil {
		last.waitFill(r.log) // none starts while serial is held
	}
	r.log.wmu.Lock()
	begun, err := r.retireLocked()
	out := r.log.out
	r.log.wmu.Unlock()
	if !begun || err != nil {
		return err
	}
	return out.sync(r.log)
}

// lastFinished reports whether the last segment is not empty and all of it may be removed.
func (r retaining) lastFinished() bool {
	view := r.log.view()
	if len(view) == 0 {
		return false
	}
	s := view[len(view)-1]
	end := r.log.End()
	return s.base < end && end <= min(r.log.CommittedEnd(), r.log.DurableEnd()) && r.ask.finished(view[len(view)-1:], end)
}

// retireLocked is retireLast's critical section: nothing is appended in between.
func (r retaining) retireLocked() (begun bool, err error) {
	if r.log.closed || len(r.log.rolled) > 0 || !r.lastFinished() {
		return false, nil
	}
	if err := reopenPinnedLocked(r.log); err != nil {
		return false, refuse("open last segment", err)
	}
	old := r.log.out
	if old != nil {
		if err := old.trim(); err != nil { // which may free the space for the new one
			return false, r.log.fail(err)
		}
	}
	out, err := createOutput(r.log.fs, r.log.dir, r.log.End(), r.log.endPos.Load(), 0)
	if err != nil {
		return false, refuse("create segment", err)
	}
	if old != nil {
		old.abandon() // everything in it is durable
		old.seg.unpin()
	}
	r.log.out = out
	r.log.segments.Store(new(append(slices.Clone(r.log.view()), out.seg)))
	return true, nil
}
