package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// TimeSuspended returns for how long the machine was suspended since it started: the
// difference between the clock that continues during a suspension and the one that does
// not. The former is read first, so that a pause between the two does not look like a
// suspension.
func TimeSuspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(continuousClock, &boot) != nil || unix.ClockGettime(awakeClock, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
