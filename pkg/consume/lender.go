package consume

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"
)

const (
	// lendAfter is how long a client with capacity waits before credit is lent.
	lendAfter = 50 * time.Millisecond
	// lendAtMost is that time after lending had no effect repeatedly.
	lendAtMost = time.Second
)

// lender lets a client use all its capacity, wherever the messages are: a leader may have sent all
// of its share and have more messages while others do not use theirs.
type lender struct {
	pause   time.Duration // before credit is lent; used by Take's goroutine
	waiting atomic.Bool   // credit will be lent
	lent    atomic.Bool   // the shares differ from those that allot would give
}

// look records how many messages Take returned. If none, and credit is unused, idle
// credit is lent to saturated relays after a pause; a lender gets it back once it has
// used up its own. It must be called by Take's goroutine.
func (l *lender) look(s *Subscription, set *Sources, took int) {
	if took > 0 {
		l.pause = lendAfter
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
	if deprived && l.lent.Load() {
		s.allot()
	}
	if !full || s.stopped.Load() || set.inFlight() >= ready || l.waiting.Swap(true) {
		return
	}
	l.pause = max(l.pause, lendAfter)
	time.AfterFunc(l.pause, func() {
		l.waiting.Store(false)
		s.share(relay.Lend)
		s.wake() // if it has no effect, another relay gets the credit
	})
	l.pause = min(2*l.pause, lendAtMost)
}
