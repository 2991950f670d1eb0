//go:build !linux

package lease

import "time"

// TimeSuspended is not supported on this system: it returns 0.
func TimeSuspended() time.Duration { return 0 }
