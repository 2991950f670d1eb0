package channel

import (
	"math"
	"time"
)

// timeline converts moments to ns since the first moment that it was given. Differences are those
// of the monotonic clock, so steps of the wall clock do not affect it.
type timeline struct {
	origin time.Time // with its monotonic reading; zero: no moment yet
	wall   int64     // wall clock at the origin, as far as known
}

// wallTolerance is how far the wall clock may move against the monotonic one before stored times
// use its new reading. Below it they keep their values, so that checkpoints of an unchanged state
// are equal.
const wallTolerance = 100 * time.Millisecond

// nanos returns the position of a moment on the timeline.
func (l *timeline) nanos(now time.Time) int64 {
	if l.origin.IsZero() {
		l.origin, l.wall = now, now.UnixNano()
	}
	return int64(now.Sub(l.origin))
}

// moment returns the time at a position on the timeline.
func (l *timeline) moment(at int64) time.Time { return l.origin.Add(time.Duration(at)) }

// align makes onWall use a wall clock that shows wall at now. It reports whether that is a new
// reading.
func (l *timeline) align(now time.Time, wall int64) bool {
	at := int64(subTime(wall, l.nanos(now)))
	if subTime(at, l.wall).Abs() <= wallTolerance {
		return false
	}
	l.wall = at
	return true
}

// onWall returns the wall clock's time at a position on the timeline, in ns since 1970.
func (l *timeline) onWall(at int64) int64 { return addTime(at, time.Duration(l.wall)) }

// addTime returns at+d, clamped to the first and last possible moment.
func addTime(at int64, d time.Duration) int64 {
	switch {
	case d > 0 && at > math.MaxInt64-int64(d):
		return math.MaxInt64
	case d < 0 && at < math.MinInt64-int64(d):
		return math.MinInt64
	}
	return at + int64(d)
}

// subTime returns a-b, clamped to the longest possible time.
func subTime(a, b int64) time.Duration {
	switch d := a - b; {
	case a >= b && d < 0:
		return math.MaxInt64
	case a < b && d >= 0:
		return math.MinInt64
	default:
		return time.Duration(d)
	}
}
