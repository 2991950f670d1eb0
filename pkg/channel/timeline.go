package channel

import (
	"math"
	"time"
)

// timeline turns moments into ns since the first moment that it was given. The
// differences are those of the monotonic clock, so steps of the wall clock do not
// show on it.
type timeline struct {
	origin time.Time // with its monotonic reading; zero: no moment yet
	wall   int64     // what the wall clock showed at the origin, as far as is known
}

// wallTolerance is how far the wall clock may move against the monotonic one
// before stored times are noted by its new reading. Below it they keep their
// values, so that checkpoints of an unchanged state are equal.
const wallTolerance = 100 * time.Millisecond

// nanos returns where a moment is on the timeline.
func (l *timeline) nanos(now time.Time) int64 {
	if l.origin.IsZero() {
		l.origin, l.wall = now, now.UnixNano()
	}
	return int64(now.Sub(l.origin))
}

// moment returns the time at a place on the timeline.
func (l *timeline) moment(at int64) time.Time { return l.origin.Add(time.Duration(at)) }

// align has onWall speak by the wall clock that shows wall at now. It says whether
// that is another reading than before.
func (l *timeline) align(now time.Time, wall int64) bool {
	at := int64(subTime(wall, l.nanos(now)))
	if subTime(at, l.wall).Abs() <= wallTolerance {
		return false
	}
	l.wall = at
	return true
}

// onWall returns what the wall clock shows at a place on the timeline, in ns
// since 1970.
func (l *timeline) onWall(at int64) int64 { return addTime(at, time.Duration(l.wall)) }

// addTime returns at+d, or the first or last moment that there is.
func addTime(at int64, d time.Duration) int64 {
	switch {
	case d > 0 && at > math.MaxInt64-int64(d):
		return math.MaxInt64
	case d < 0 && at < math.MinInt64-int64(d):
		return math.MinInt64
	}
	return at + int64(d)
}

// subTime returns how long b is before a, or the longest time that there is.
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
