//go:build !linux

package lease

import "time"

// TimeSuspended cannot be known here.
func TimeSuspended() time.Duration { return 0 }
