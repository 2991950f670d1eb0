// Package units parses and formats sizes and durations in human-readable form, the same in
// flags, environment, configuration file, brokerctl's command line and the JSON of /v1.
//
// The output of Size.String and FormatDuration parses back to the same value.
package units

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. It is written as a plain number or with a unit, in
// small or capital letters: K, Ki or KiB and so on up to E are powers of 1024, kB
// and so on up to EB are powers of 1000.
type Size int64

// Binary units of a Size.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
	PiB
	EiB
)

// sizeUnits are the units that sizes are printed in, largest first.
var sizeUnits = []struct {
	name  string
	bytes Size
}{
	{"EiB", EiB},
	{"EB", 1e18},
	{"PiB", PiB},
	{"PB", 1e15},
	{"TiB", TiB},
	{"TB", 1e12},
	{"GiB", GiB},
	{"GB", 1e9},
	{"MiB", MiB},
	{"MB", 1e6},
	{"KiB", KiB},
	{"kB", 1e3},
}

var (
	errCount         = errors.New("is not a valid count; examples: 500, 10k, 2M")
	errSize          = errors.New("is not a valid size; examples: 1048576, 512KiB, 1.5G, 50GiB, 500MB")
	errSizeRange     = errors.New("is too large: sizes must be below 8EiB")
	errDuration      = errors.New("is not a valid duration; examples: 250ms, 30s, 1h30m, 72h, 7d, 2w")
	errDurationRange = errors.New("is too long: durations must not exceed 106751 days")
)

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= u.bytes && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseSize parses a Size. A unit may have a fraction before it. The error says what the text is
// not, and is meant to follow the text.
func ParseSize(text string) (Size, error) {
	n, rest, err := scan(strings.TrimSpace(text), sizeUnit)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errSizeRange
	case err != nil || rest != "":
		return 0, errSize
	}
	return Size(n), nil
}

func sizeUnit(name string) int64 {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" || name == "b" {
		return 1
	}
	if name = strings.TrimSuffix(name, "i"); len(name) == 1 {
		name += "ib"
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(name, u.name) {
			return int64(u.bytes)
		}
	}
	return 0
}

// FormatDuration writes a duration as time.Duration does, without the parts at
// its end that are zero: 72h for 72h0m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// ShortDuration formats a duration for people, rounded to the unit that matters: days from two days on, then
// minutes from an hour on, seconds from a second on, and milliseconds.
func ShortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return strconv.Itoa(int(d/day)) + "d"
	case d >= time.Hour:
		return FormatDuration(d.Round(time.Minute))
	case d >= time.Second:
		return FormatDuration(d.Round(time.Second))
	}
	return FormatDuration(d.Round(time.Millisecond))
}

// ParseDuration parses a duration that is not negative: the forms of time.ParseDuration without a
// sign, and days (d) and weeks (w). The error says what the text is not, and is meant to follow the
// text.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	if rest == "0" {
		return 0, nil
	}
	total := int64(0)
	for {
		n, next, err := scan(rest, durationUnit)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64-total:
			return 0, errDurationRange
		case err != nil:
			return 0, errDuration
		}
		if total, rest = total+n, next; rest == "" {
			return time.Duration(total), nil
		}
	}
}

func durationUnit(name string) int64 {
	switch name {
	case "w":
		return int64(7 * 24 * time.Hour)
	case "d":
		return int64(24 * time.Hour)
	case "h":
		return int64(time.Hour)
	case "m":
		return int64(time.Minute)
	case "s":
		return int64(time.Second)
	case "ms":
		return int64(time.Millisecond)
	case "us", "µs", "μs": // the micro sign and the Greek letter
		return int64(time.Microsecond)
	case "ns":
		return 1
	}
	return 0
}

// scan reads a number and the unit after it, up to the next digit. unit returns the value of a
// unit, and 0 for an unknown one; one of 1 is not divided. A number that is too large wraps
// strconv.ErrRange.
func scan(text string, unit func(name string) int64) (value int64, rest string, err error) {
	const digits = "0123456789."
	rest = strings.TrimLeft(text, digits)
	whole, fraction, point := strings.Cut(text[:len(text)-len(rest)], ".")
	name := rest
	if i := strings.IndexAny(rest, digits); i >= 0 {
		name = rest[:i]
	}
	rest = rest[len(name):]
	worth := unit(name)
	if worth == 0 || whole+fraction == "" || point && worth == 1 {
		return 0, "", strconv.ErrSyntax
	}
	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil {
		return 0, "", err
	}
	part, err := strconv.ParseFloat("0."+fraction+"0", 64)
	if err != nil {
		return 0, "", err
	}
	more := int64(math.Round(part * float64(worth)))
	if n > (math.MaxInt64-more)/worth {
		return 0, "", strconv.ErrRange
	}
	return n*worth + more, rest, nil
}

// ParseCount reads a number of things that is not negative: 500, 10k, 2M, 1G. The error says what
// is right, as those of the other units do.
func ParseCount(text string) (int64, error) {
	digits, factor := text, int64(1)
	for unit, n := range map[string]int64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			digits, factor = rest, n
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return 0, errCount
	}
	return int64(n) * factor, nil
}
