// Package beat aligns periodic timers to shared ticks, the multiples of each period, so that an
// idle process wakes once per tick: waking up is its main cost.
//
// Invariants: the package keeps no state, and a clock change shifts one tick only.
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

// Pause waits for d, and returns false where ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
