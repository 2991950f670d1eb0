package simtest

import (
	"time"
	"unsafe"
)

// SetWall returns t as if the wall clock had been set forward or back by d, in
// whole seconds: the monotonic reading stays that of t. It panics if t has
// none, as in a bubble of testing/synctest.
func SetWall(t time.Time, d time.Duration) time.Time {
	const secondsShift = 30 // of the seconds in the first word of a time.Time, above the nanoseconds
	was := t
	(*struct{ wall uint64 })(unsafe.Pointer(&t)).wall += uint64(int64(d/time.Second)) << secondsShift
	if !t.Equal(was) || t.Sub(was) != 0 || t.Round(0).Sub(was.Round(0)) != d.Truncate(time.Second) {
		panic("this time has no monotonic reading, or time.Time has another layout")
	}
	return t
}
