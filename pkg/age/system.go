//go:build !fakeclock

package age

import "time"

// System returns the reading of the system's wall clock at a moment that was just read, in ns since 1970.
func System(now time.Time) int64 { return now.UnixNano() }
