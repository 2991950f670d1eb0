package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// samples holds what was measured: by contender, by figure.
type samples map[string]map[string][]float64

func (s samples) add(contender, figure string, v float64) {
	if s[contender] == nil {
		s[contender] = map[string][]float64{}
	}
	s[contender][figure] = append(s[contender][figure], v)
}

// median returns the middle of the values; NaN if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// table draws the medians, and the ratio of each contender to the first.
func (s samples) table(all []contender) string {
	var b strings.Builder
	first := all[0].name
	fmt.Fprintf(&b, "| load | %s |", first)
	for _, c := range all[1:] {
		fmt.Fprintf(&b, " %s | ratio |", c.name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("--:|", 2*len(all)-1))
	for _, figure := range s.figures(first) {
		base := median(s[first][figure])
		fmt.Fprintf(&b, "| %s | %s |", figure, number(base))
		for _, c := range all[1:] {
			v := median(s[c.name][figure])
			fmt.Fprintf(&b, " %s | %.2f |", number(v), v/base)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// figures lists what was measured of a contender, sorted.
func (s samples) figures(contender string) []string {
	var names []string
	for name := range s[contender] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// number writes three significant digits, and thousands with commas.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
