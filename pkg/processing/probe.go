package processing

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Probe follows one message of a consumer at a time from its delivery to its end, as a
// sample of how long messages are processed. One goroutine begins; any may end.
type Probe struct {
	offset   atomic.Uint64 // of the message plus 1; 0: none is followed
	begun    atomic.Int64  // ns since 1970
	attempts atomic.Int64
}

// Begin follows a message that is about to be delivered, unless one is followed already.
// One that was not finished within its timeout is given up: it went to another consumer, or
// was requeued.
func (p *Probe) Begin(o seq.Offset, now time.Time, attempts int, timeout time.Duration) {
	if p.offset.Load() != 0 && now.UnixNano()-p.begun.Load() < int64(timeout) {
		return
	}
	p.offset.Store(0) // who ends the one before finds none, or what was true of it
	p.begun.Store(now.UnixNano())
	p.attempts.Store(int64(attempts))
	p.offset.Store(uint64(o) + 1)
}

// End says how long the message took that is finished, if it is the one that is followed.
func (p *Probe) End(o seq.Offset, now time.Time) (took time.Duration, attempts int, ok bool) {
	if p.offset.Load() != uint64(o)+1 {
		return 0, 0, false
	}
	took, attempts = time.Duration(now.UnixNano()-p.begun.Load()), int(p.attempts.Load())
	return max(took, 0), attempts, p.offset.CompareAndSwap(uint64(o)+1, 0)
}

// Drop follows a message no longer that is not finished by this consumer.
func (p *Probe) Drop(o seq.Offset) { p.offset.CompareAndSwap(uint64(o)+1, 0) }
