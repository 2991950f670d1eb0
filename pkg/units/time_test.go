package units

import (
	"math"
	"testing"
	"time"
)

func TestTimesAreRead(t *testing.T) {
	zone := time.FixedZone("", 3600)
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	for text, want := range map[string]time.Time{
		"2026-11-21T06:00:00Z":           time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC),
		"2026-11-21T06:00:00.123456789Z": time.Date(2026, 11, 21, 6, 0, 0, 123456789, time.UTC),
		"2026-11-21T06:00:00+02:00":      time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC),
		"2026-11-21T06:00:00":            time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC),
		"2026-11-21T06:00":               time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC),
		"2026-11-21 06:00:00":            time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC),
		"2026-11-21":                     time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC),
		"1970-01-01T00:00:00Z":           time.Unix(0, 0),
		"1677-09-21T00:12:43Z":           first,
		"1677-09-21T00:12:44Z":           time.Date(1677, 9, 21, 0, 12, 44, 0, time.UTC),
		"1600-01-01":                     first,
		"0001-01-01T00:00:00Z":           first,
		"0000-01-01T00:00:00Z":           first,
		"2262-04-11T23:47:16Z":           time.Date(2262, 4, 11, 23, 47, 16, 0, time.UTC),
		"2262-04-11T23:47:17Z":           last,
		"2262-04-11T23:47:16.9Z":         last,
		"9999-12-31T23:59:59Z":           last,
		"9999-12-31":                     last,
	} {
		got, err := ParseTime(text, zone)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if got.IsZero() || !time.Unix(0, got.UnixNano()).Equal(got) {
			t.Errorf("%q is read as %v, which cannot be stored", text, got)
		}
	}
	for _, text := range []string{"", "now", "2026", "2026-13-01", "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "1764349789"} {
		if got, err := ParseTime(text, zone); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if got, err := ParseTime("2026-11-21", nil); err == nil {
		t.Errorf("a time without its zone is read as %v", got)
	}
}

func TestSecondsAreRead(t *testing.T) {
	for n, want := range map[int64]time.Time{
		0: time.Unix(0, 0), 17: time.Unix(17, 0), 9223372036: time.Unix(9223372036, 0),
		9223372037: time.Unix(0, math.MaxInt64), 253402300799: time.Unix(0, math.MaxInt64),
	} {
		if got, err := FromSeconds(n); err != nil || !got.Equal(want) {
			t.Errorf("%d: %v, %v, want %v", n, got, err, want)
		}
	}
	for _, n := range []int64{-1, math.MinInt64, 253402300800, 1764349789000, 1764349789000000, 1764349789000000000, math.MaxInt64} {
		if got, err := FromSeconds(n); err == nil {
			t.Errorf("%d is read as %v", n, got)
		}
	}
}
