package units

import (
	"cmp"
	"errors"
	"math"
	"time"
)

// Stored times are 64-bit numbers of ns since 1970: they begin in 1677 and end in 2262.
var (
	earliest = time.Unix(0, math.MinInt64).UTC()
	latest   = time.Unix(0, math.MaxInt64).UTC()
)

// maxSeconds is the last second of the year 9999, since 1970. A larger number is one of another unit.
const maxSeconds = 253402300799

var (
	errTime    = errors.New("is not a valid time; example: 2026-11-21T06:00:00Z")
	errSeconds = errors.New("is not a valid time: it must be in seconds since 1970, and not after the year 9999")
)

// ClampTime returns a time that the broker can store: the first or the last one instead of one before or
// after it. time.Time.UnixNano is undefined for those, and wraps.
func ClampTime(at time.Time) time.Time {
	switch {
	case at.Before(earliest):
		return earliest
	case at.After(latest):
		return latest
	}
	return at
}

// ParseTime parses a time as in RFC 3339. One without a zone, without seconds, or without a time of day is in
// the given zone; nil: the zone is required, as are all parts. One that the broker cannot store is clamped, see
// ClampTime, so that it is never the zero time. The error says what the text is not, and is meant to follow the
// text.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	layouts := []string{time.RFC3339Nano}
	if zone != nil {
		layouts = append(layouts, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly)
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, cmp.Or(zone, time.UTC)); err == nil { //nolint:forbidigo // here alone
			return ClampTime(at), nil
		}
	}
	return time.Time{}, errTime
}

// FromSeconds returns the time that is a number of seconds after 1970, clamped as by ClampTime. Numbers that
// are too large for seconds, such as a time in ms or µs, are errors: clamping one would mean the end of a log
// where its sender means a time in the past. The error is meant to follow the number.
func FromSeconds(n int64) (time.Time, error) {
	if n < 0 || n > maxSeconds {
		return time.Time{}, errSeconds
	}
	return ClampTime(time.Unix(n, 0).UTC()), nil
}
