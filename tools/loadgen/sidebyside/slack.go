package main

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// withSlack calls f on a thread that has a timer slack, which the programs that f starts inherit. 0: the
// slack is not changed.
func withSlack(slack time.Duration, f func() error) error {
	if slack == 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = setSlack(slack)
	}
	if err != nil {
		return fmt.Errorf("set the timer slack of programs to %v: %w", slack, err)
	}
	defer setSlack(time.Duration(before)) //nolint:errcheck // it is a value that the thread had
	return f()
}

func setSlack(d time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0)
}
