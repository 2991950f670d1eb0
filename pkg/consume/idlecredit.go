package consume

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"
)

const (
	// redistributeAfter is how long a client with capacity waits before idle credit is redistributed.
	redistributeAfter = 50 * time.Millisecond
	// redistributeAtMost is that time after redistribution repeatedly had no effect.
	redistributeAtMost = time.Second
)

// idleCredit lets a client use all its capacity, wherever the messages are: a leader may have sent all
// of its share and have more messages while others do not use theirs.
type idleCredit struct {
	pause         time.Duration // before idle credit is redistributed; used by Take's goroutine
	waiting       atomic.Bool   // idle credit will be redistributed
	redistributed atomic.Bool   // the shares differ from those that allot would give
}

// observe records how many messages Take returned. If none, and credit is unused, idle
// credit is given to saturated relays after a pause; a relay gets its share back once it has
// used up its own. It must be called by Take's goroutine.
func (l *idleCredit) observe(s *Subscription, set *Sources, took int) {
	if took > 0 {
		l.pause = redistributeAfter
		return
	}
	ready := int(s.ready.Load())
	fair := ready / (len(set.Relays) + set.others())
	full, deprived := false, false
	for _, r := range set.Relays {
		c := r.Claim()
		full = full || c.Full()
		deprived = deprived || c.Full() && (c.Filled || c.Starved) && c.Credit < fair
	}
	if deprived && l.redistributed.Load() {
		s.allot()
	}
	if !full || s.stopped.Load() || set.InFlight() >= ready || l.waiting.Swap(true) {
		return
	}
	l.pause = max(l.pause, redistributeAfter)
	time.AfterFunc(l.pause, func() {
		l.waiting.Store(false)
		s.share(relay.Redistribute)
		s.wake() // if it has no effect, another relay gets the credit
	})
	l.pause = min(2*l.pause, redistributeAtMost)
}
