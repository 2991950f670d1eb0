// Package beat has what a process does again and again fall on common moments: the
// multiples of each period. Timers that fire together wake a process once, and most
// of what an idle one costs is waking up.
//
// Invariants: it keeps no state, and a clock that is set moves a moment and nothing
// else.
package beat

import (
	"context"
	"time"
)

// early is the part of a period that a timer may fire too early without its moment
// counting once more.
const early = 8

// Until returns how long it is to the next multiple of a period, leaving out one
// that is all but there.
func Until(now time.Time, period time.Duration) time.Duration {
	d := period - time.Duration(now.UnixNano()%int64(period))
	if d < period/early {
		d += period
	}
	return d
}

// Every calls f at the multiples of a period until ctx ends, and no more often than
// f takes.
func Every(ctx context.Context, period time.Duration, f func()) {
	timer := time.NewTimer(Until(time.Now(), period))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f()
			timer.Reset(Until(time.Now(), period))
		}
	}
}
