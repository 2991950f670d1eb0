package topic

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// probe follows one message of a consumer at a time from its delivery to its end, as a
// sample of how long messages are processed. One goroutine begins; any may end.
type probe struct {
	offset   atomic.Uint64 // of the message plus 1; 0: none is followed
	begun    atomic.Int64  // ns since 1970
	attempts atomic.Int64
}

// begin follows a message that is about to be delivered, unless one is followed already.
// One that was not finished within its timeout is given up: it went to another consumer, or
// was requeued.
func (p *probe) begin(o seq.Offset, now time.Time, attempts int, timeout time.Duration) {
	if p.offset.Load() != 0 && now.UnixNano()-p.begun.Load() < int64(timeout) {
		return
	}
	p.offset.Store(0) // who ends the one before finds none, or what was true of it
	p.begun.Store(now.UnixNano())
	p.attempts.Store(int64(attempts))
	p.offset.Store(uint64(o) + 1)
}

// end says how long the message took that is finished, if it is the one that is followed.
func (p *probe) end(o seq.Offset, now time.Time) (took time.Duration, attempts int, ok bool) {
	if p.offset.Load() != uint64(o)+1 {
		return 0, 0, false
	}
	took, attempts = time.Duration(now.UnixNano()-p.begun.Load()), int(p.attempts.Load())
	return max(took, 0), attempts, p.offset.CompareAndSwap(uint64(o)+1, 0)
}

// drop follows a message no longer that is not finished by this consumer.
func (p *probe) drop(o seq.Offset) { p.offset.CompareAndSwap(uint64(o)+1, 0) }

// processed notes how long a message took that is finished.
func (k *Consumer) processed(o seq.Offset, now time.Time) {
	if took, attempts, ok := k.probe.end(o, now); ok {
		k.ch.p.o.Observer.ObserveFinish(took, attempts)
	}
	if k.ch.times == nil {
		return
	}
	if at, ok := k.published.Take(o); ok {
		k.ch.times.Ended(at, now)
	}
}
