package main

import (
	"fmt"
	"os"
)

// measurement is what one load has found.
type measurement struct {
	figures map[string]float64
	others  float64 // share of a core that other programs used; 0 if not measured
}

// quietest repeats a measurement, up to a maximum, until other programs use no more of a core than
// the limit, and returns the measurement beside which they used least.
func quietest(tries int, limit float64, measure func() (measurement, error)) (measurement, error) {
	best, err := measure()
	for range tries - 1 {
		if err != nil || best.others <= limit {
			break
		}
		fmt.Fprintf(os.Stderr, "other programs used %.0f%% of a core\n", 100*best.others)
		var m measurement
		if m, err = measure(); err == nil && m.others < best.others {
			best = m
		}
	}
	return best, err
}
