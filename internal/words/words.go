// Package words formats numbers, sizes and names for people.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Count writes a number with commas: 48,112.
func Count[T ~int | ~int64 | ~uint64 | ~uint16](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// CountOf returns "1 message" or "48,112 messages".
func CountOf[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Plural returns "1 message" or "3 messages".
func Plural[T ~int | ~int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Size writes bytes for people: 12.4 GiB.
func Size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// Nearest returns the known name that needs the fewest edits to become name, if it is similar; "":
// none is.
func Nearest(name string, known []string) string {
	limit := 1 + len(name)/3
	best := ""
	for _, k := range known {
		if d := editDistance(name, k); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// editDistance counts the bytes to insert, remove or replace, or to swap with
// their neighbour, that make b of a.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Union returns the names that are in a or in b, sorted, each once: nil for none.
func Union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// UnionOf returns the names that of returns for any element of all, sorted, each once: nil for none.
func UnionOf[T any](all []T, of func(T) []string) (names []string) {
	for _, x := range all {
		names = Union(names, of(x))
	}
	return names
}
