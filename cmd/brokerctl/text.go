package main

import (
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

// count formats a number with commas: 48,112.
func count[T ~int | ~int64 | ~uint64 | ~uint16](n T) string { return words.Count(n) }

// age formats a duration for people: 1.2s, 42s, 3h12m; "-" for 0.
func age(d api.Duration) string {
	v := time.Duration(d)
	switch {
	case v <= 0:
		return "-"
	case v < time.Second:
		return v.Round(time.Millisecond).String()
	case v < 10*time.Second:
		return v.Round(100 * time.Millisecond).String()
	case v < time.Hour:
		return v.Round(time.Second).String()
	}
	return units.FormatDuration(v.Round(time.Minute))
}

// latency formats a duration with two or three digits: 1.9ms, 31ms, 120µs.
func latency(d time.Duration) string {
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}

// list formats names with commas; "-" for none.
func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

// plural returns "1 message" or "3 messages".
func plural[T ~int | ~int64 | ~uint64](n T, noun string) string { return words.CountOf(n, noun) }
