package listing

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/units"
)

// Column is a column or a field by which rows are sorted: numbers, sizes and
// durations the largest first, texts from A to Z; with - before it the other way.
type Column struct {
	Name    string // without capitals, blanks and signs
	Reverse bool
}

// ParseColumn reads a column as people write it.
func ParseColumn(text string) Column {
	name, reverse := strings.CutPrefix(text, "-")
	return Column{plainName(name), reverse}
}

// plainName makes one of "IN-FLIGHT", "in flight" and "in_flight", and one of "IN/s" and "in_per_s".
func plainName(name string) string {
	name = strings.ReplaceAll(name, "/", "per")
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', ' ', '.', '_', '+':
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// In returns which of some names the column is: the same but for spelling, or else the
// first that begins with it.
func (s Column) In(names []string) (int, bool) {
	for _, fits := range []func(name string) bool{
		func(name string) bool { return plainName(name) == s.Name },
		func(name string) bool { return strings.HasPrefix(plainName(name), s.Name) },
	} {
		if i := slices.IndexFunc(names, fits); i >= 0 {
			return i, true
		}
	}
	return 0, false
}

// Order compares two cells, as cmp.Compare does.
func (s Column) Order(a, b string) int {
	x, isX := measureOf(a)
	y, isY := measureOf(b)
	var c int
	switch {
	case isX && isY:
		c = cmp.Compare(y, x)
	case isX != isY: // what is no number is less than any
		c = -1
		if isY {
			c = 1
		}
	default:
		c = strings.Compare(a, b)
	}
	if s.Reverse {
		return -c
	}
	return c
}

// measureOf reads a cell that is a number, a size or a duration, as commands print them. What tables call never is null
// in JSON.
func measureOf(cell string) (float64, bool) {
	text := strings.ReplaceAll(cell, ",", "")
	text = strings.TrimPrefix(text, "<")
	switch text {
	case "-", "now":
		return 0, true
	case "never", "null":
		return float64(1<<63 - 1), true
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, true
	}
	if d, err := units.ParseDuration(text); err == nil {
		return float64(d), true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return float64(d), true
	}
	number, unit, ok := strings.Cut(text, " ")
	x, err := strconv.ParseFloat(number, 64)
	power := strings.Index("B KiBMiBGiBTiBPiBEiB", unit)
	if !ok || err != nil || power < 0 || unit == "" {
		return 0, false
	}
	for range (power + 1) / 3 {
		x *= 1024
	}
	return x, true
}
