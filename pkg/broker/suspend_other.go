//go:build !linux

package broker

import "time"

// timeSlept cannot be known here.
func timeSlept() time.Duration { return 0 }
