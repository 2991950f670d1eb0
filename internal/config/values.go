package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. It is written as a plain number or with a unit:
// kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
type Size int64

// Binary units of a Size.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

type sizeUnit struct {
	name  string
	bytes Size
}

// sizeUnits lists the units, largest first; the binary ones are used to print.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", TiB},
		{"GiB", GiB},
		{"MiB", MiB},
		{"KiB", KiB},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"kB", 1e3},
		{"KB", 1e3},
		{"B", 1},
	}
}

// String returns the size with the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits()[:4] {
		if s >= u.bytes && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var errSize = errors.New("is not a size such as 1048576, 512KiB or 50GiB")

// ParseSize reads a Size. Fractions are allowed before a unit.
func ParseSize(text string) (Size, error) {
	number, unit := strings.TrimSpace(text), Size(1)
	for _, u := range sizeUnits() {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole < 0 || whole > math.MaxInt64/int64(unit) {
			return 0, errSize
		}
		return Size(whole) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || unit == 1 || f < 0 || math.IsNaN(f) || f*float64(unit) >= math.MaxInt64 {
		return 0, errSize
	}
	return Size(f * float64(unit)), nil
}

var errDuration = errors.New("is not a duration such as 250ms, 30s, 15m, 72h or 7d")

// ParseDuration reads a duration as time.ParseDuration does, and whole days
// (d) and weeks (w) besides.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			count, err := strconv.ParseUint(n, 10, 16)
			if err != nil {
				return 0, errDuration
			}
			return time.Duration(count) * u.unit, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// formatDuration prints a duration without the zero units that
// time.Duration.String carries.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Sync says how many acknowledged messages may be unsynced: 1 is always, 0
// leaves it to the interval alone.
type Sync struct{ Every int }

// String returns the policy as the sync setting spells it.
func (s Sync) String() string {
	switch s.Every {
	case 0:
		return "interval"
	case 1:
		return "always"
	}
	return strconv.Itoa(s.Every)
}

// value is one setting's place in Options: text in, text out.
type value interface {
	// native returns the value as JSON shows it: durations in ns, sizes in bytes.
	native() any
	set(text string) error
	String() string
	typeName() string
}

type textValue struct{ p *string }

func (v textValue) set(s string) error { *v.p = s; return nil }
func (v textValue) String() string     { return *v.p }
func (v textValue) typeName() string   { return "text" }

type choiceValue struct {
	p       *string
	allowed []string
}

func (v choiceValue) set(s string) error {
	if !slices.Contains(v.allowed, s) {
		return fmt.Errorf("is none of %s", strings.Join(quoteEmpty(v.allowed), ", "))
	}
	*v.p = s
	return nil
}
func (v choiceValue) String() string   { return *v.p }
func (v choiceValue) typeName() string { return strings.Join(quoteEmpty(v.allowed), "|") }

func quoteEmpty(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if w == "" {
			out[i] = `""`
		}
	}
	return out
}

type numberValue struct{ p *int }

func (v numberValue) set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return errors.New("is not a whole number")
	}
	*v.p = n
	return nil
}
func (v numberValue) String() string   { return strconv.Itoa(*v.p) }
func (v numberValue) typeName() string { return "number" }

type boolValue struct{ p *bool }

func (v boolValue) set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("is neither true nor false")
	}
	*v.p = b
	return nil
}
func (v boolValue) String() string   { return strconv.FormatBool(*v.p) }
func (v boolValue) typeName() string { return "bool" }

type sizeValue struct{ p *Size }

func (v sizeValue) set(s string) error {
	n, err := ParseSize(s)
	if err != nil {
		return err
	}
	*v.p = n
	return nil
}
func (v sizeValue) String() string   { return v.p.String() }
func (v sizeValue) typeName() string { return "size" }

type durationValue struct{ p *time.Duration }

func (v durationValue) set(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*v.p = d
	return nil
}
func (v durationValue) String() string   { return formatDuration(*v.p) }
func (v durationValue) typeName() string { return "duration" }

type syncValue struct{ p *Sync }

func (v syncValue) set(s string) error {
	switch s {
	case "always":
		v.p.Every = 1
		return nil
	case "interval":
		v.p.Every = 0
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("is neither always, interval nor a number of messages")
	}
	v.p.Every = n
	return nil
}
func (v syncValue) String() string   { return v.p.String() }
func (v syncValue) typeName() string { return "always|interval|number" }

// listValue holds several words. Text sets them all, separated by commas.
type listValue struct{ p *[]string }

func (v listValue) set(s string) error {
	var words []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	*v.p = words
	return nil
}
func (v listValue) String() string   { return strings.Join(*v.p, ",") }
func (v listValue) typeName() string { return "list" }

func (v textValue) native() any { return *v.p }

func (v choiceValue) native() any { return *v.p }

func (v numberValue) native() any { return *v.p }

func (v boolValue) native() any { return *v.p }

func (v sizeValue) native() any { return int64(*v.p) }

func (v durationValue) native() any { return int64(*v.p) }

func (v syncValue) native() any { return v.String() }

func (v listValue) native() any { return append([]string{}, *v.p...) }
