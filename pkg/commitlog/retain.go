package commitlog

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Retention says what of a log may go.
type Retention struct {
	// Floor is the lowest offset that is still wanted.
	Floor seq.Offset
	// MaxAge is how long a segment stays after its last batch though it lies below
	// the floor; 0: not at all.
	MaxAge time.Duration
	// Now is the time against which ages are taken.
	Now time.Time
	// MaxBytes is the size above which the oldest segments go though they are
	// wanted; 0: no limit.
	MaxBytes int64
}

// Retain removes the oldest segments that may go, whole ones only, and returns
// how many. The last segment stays, and so does everything that is not
// committed. Readers that are in a segment which goes may read it to its end.
func (l *Log) Retain(r Retention) (dropped int, err error) {
	l.serial.Lock()
	defer l.serial.Unlock()
	if err := l.refuseFailed(); err != nil {
		return 0, err
	}
	view := l.view()
	n := r.expired(view, min(l.CommittedEnd(), l.DurableEnd()), l.Bytes())
	if n == 0 {
		return 0, nil
	}
	// First the note, then the files: after a crash in between the files that are
	// left are known to be on their way out, and no gap is taken for damage.
	start := view[n].base
	if err := l.checkpointSerial(seq.MaxOffset+1, start); err != nil {
		return 0, err
	}
	l.wmu.Lock()
	rest := slices.Clone(l.view()[n:])
	l.start.Store(uint64(start))
	l.startPos.Store(rest[0].basePos)
	l.segments.Store(&rest)
	epochs := cutEpochs(l.Epochs(), start, l.End())
	l.epochs.Store(&epochs)
	l.wmu.Unlock()
	for _, s := range view[:n] {
		if err := s.remove(l.fs); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, l.fs.SyncDir(l.dir)
}

// expired returns how many of the oldest segments of a log of so many bytes may
// go. What is at stays or after may not.
func (r Retention) expired(view []*segment, stays seq.Offset, bytes int64) int {
	n := 0
	for ; n < len(view)-1; n++ {
		s := view[n]
		if view[n+1].base > stays {
			break
		}
		finished := view[n+1].base <= r.Floor && (r.MaxAge == 0 || r.Now.UnixNano()-s.maxTime.Load() >= int64(r.MaxAge))
		if !finished && (r.MaxBytes == 0 || bytes <= r.MaxBytes) {
			break
		}
		bytes -= view[n+1].basePos - s.basePos
	}
	return n
}
