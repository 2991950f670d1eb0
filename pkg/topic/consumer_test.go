package topic

import (
	"cmp"
	"testing"
)

// TestASampleRateIsAPercentage: of a hundred draws just as many deliver.
func TestASampleRateIsAPercentage(t *testing.T) {
	for rate := range 100 {
		delivered := 0
		for drawn := range 100 {
			if sampled(rate, drawn) {
				delivered++
			}
		}
		if want := cmp.Or(rate, 100); delivered != want {
			t.Errorf("rate %d delivers %d of 100", rate, delivered)
		}
	}
}
