package consume

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"
)

const (
	// lendAfter is how long a client that has room waits before credit is lent.
	lendAfter = 50 * time.Millisecond
	// lendAtMost is how long it waits when nothing has come of that repeatedly.
	lendAtMost = time.Second
)

// lender sees to it that a client gets all that it has room for, wherever the
// messages are: a leader may have sent all of its part and have more while others do
// not use theirs.
type lender struct {
	pause   time.Duration // before credit is lent; of Take's goroutine
	waiting atomic.Bool   // it will be
	lent    atomic.Bool   // the parts are not those that allot would share out at rest
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
		s.wake() // if nothing comes of it, another is to have it
	})
	l.pause = min(2*l.pause, lendAtMost)
}
