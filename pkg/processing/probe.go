package processing

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Probe follows one message of a consumer at a time from its delivery to its finish,
// to sample processing times. One goroutine calls Begin; any may call End and Drop.
type Probe struct {
	offset   atomic.Uint64 // of the message plus 1; 0: none is followed
	begun    atomic.Int64  // ns since 1970
	attempts atomic.Int64
}

// Begin follows a message that is about to be delivered, unless one is followed already. A
// followed message that was not finished within its timeout is dropped: it went to another
// consumer, or was requeued.
func (p *Probe) Begin(o seq.Offset, now time.Time, attempts int, timeout time.Duration) {
	if p.offset.Load() != 0 && now.UnixNano()-p.begun.Load() < int64(timeout) {
		return
	}
	p.offset.Store(0) // a concurrent End of the previous one finds none, or the values of that one
	p.begun.Store(now.UnixNano())
	p.attempts.Store(int64(attempts))
	p.offset.Store(uint64(o) + 1)
}

// End returns how long a finished message took, if it is the followed one.
func (p *Probe) End(o seq.Offset, now time.Time) (took time.Duration, attempts int, ok bool) {
	if p.offset.Load() != uint64(o)+1 {
		return 0, 0, false
	}
	took, attempts = time.Duration(now.UnixNano()-p.begun.Load()), int(p.attempts.Load())
	return max(took, 0), attempts, p.offset.CompareAndSwap(uint64(o)+1, 0)
}

// Drop stops following a message that this consumer will not finish.
func (p *Probe) Drop(o seq.Offset) { p.offset.CompareAndSwap(uint64(o)+1, 0) }
