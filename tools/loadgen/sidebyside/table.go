package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// samples holds what was measured.
type samples struct {
	figures []string // in the order of their measurement
	values  map[sample][]float64
}

// sample names one figure of one contender.
type sample struct{ contender, figure string }

// add notes the figures of one load.
func (s *samples) add(contender, load string, figures map[string]float64) {
	if s.values == nil {
		s.values = map[sample][]float64{}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		figure := load + ": " + name
		if !slices.Contains(s.figures, figure) {
			s.figures = append(s.figures, figure)
		}
		key := sample{contender, figure}
		s.values[key] = append(s.values[key], figures[name])
	}
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
func (s *samples) table(all []contender) string {
	var b strings.Builder
	first := all[0].name
	fmt.Fprintf(&b, "| load | %s |", first)
	for _, c := range all[1:] {
		fmt.Fprintf(&b, " %s | ratio |", c.name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("--:|", 2*len(all)-1))
	for _, figure := range s.figures {
		base := median(s.values[sample{first, figure}])
		fmt.Fprintf(&b, "| %s | %s |", figure, number(base))
		for _, c := range all[1:] {
			v := median(s.values[sample{c.name, figure}])
			fmt.Fprintf(&b, " %s | %.2f |", number(v), v/base)
		}
		b.WriteByte('\n')
	}
	return b.String()
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
