package lease

import "golang.org/x/sys/unix"

// The clocks that continue and stop while the machine is suspended.
const (
	continuousClock = unix.CLOCK_MONOTONIC_RAW
	awakeClock      = unix.CLOCK_UPTIME_RAW
)
