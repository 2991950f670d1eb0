package commitlog

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Join makes m append in the next round of the log's file system, together with writers of other
// logs: see vfs.Join. It returns false if this log should be appended to alone.
func (w *Writer) Join(m vfs.Member) bool {
	o := w.log.synced.Load()
	return o != nil && w.synced.Load() && vfs.Join(o.file, m)
}

// Quick reports whether an append of n bytes currently suits a round: it is small enough to begin
// its sync, and needs no new segment, no blocks and no lock that is held.
func (w *Writer) Quick(n int) bool {
	l := w.log
	if n > vfs.MaxBegun || !l.wmu.TryLock() {
		return false
	}
	defer l.wmu.Unlock()
	o := l.out
	if o == nil || o != l.synced.Load() || len(l.rolled) > 0 {
		return false
	}
	end := o.seg.size.Load() + int64(n)
	return end <= o.allocated && end <= segmentBytes(l) && (o.filling == nil || end <= o.filled)
}

// Syncing is a sync of a log in progress. Until End is called no other sync, truncation or
// checkpoint of the log begins.
type Syncing struct {
	log     *Log
	target  seq.Offset
	out     *output
	covered int64
	began   time.Time
	sync    vfs.Sync
}

// BeginSync begins a Sync, for a member of a round: see vfs.Member. The caller calls End once the
// round has synced. If it returns false, nothing has begun: call Sync.
func (w *Writer) BeginSync() (s Syncing, ok bool) {
	l := w.log
	if !l.serial.TryLock() {
		return Syncing{}, false
	}
	defer func() {
		if !ok {
			l.serial.Unlock()
		}
	}()
	l.wmu.Lock()
	defer l.wmu.Unlock()
	o := l.out
	if w.admitLocked() != nil || o == nil || o != l.synced.Load() || len(l.rolled) > 0 || o.unsynced == 0 {
		return Syncing{}, false
	}
	s = Syncing{log: l, target: l.End(), out: o, covered: o.unsynced, began: time.Now()}
	if s.sync, ok = vfs.BeginSync(o.file); ok {
		o.unsynced = 0
	}
	return s, ok
}

// Sync returns the value that a member of a round returns from Write.
func (s *Syncing) Sync() vfs.Sync { return s.sync }

// End applies the outcome of the sync. After an error, which it returns, the log has failed and its
// content on disk is uncertain.
func (s *Syncing) End(err error) error {
	l := s.log
	defer l.serial.Unlock()
	noteSync(l, time.Since(s.began))
	if err != nil {
		return l.fail(err)
	}
	l.durable.Store(max(l.durable.Load(), uint64(s.target)))
	s.out.fillAhead(l, s.covered)
	return nil
}
