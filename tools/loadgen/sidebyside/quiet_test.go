package main

import (
	"errors"
	"testing"
)

func TestQuietestMeasurementCounts(t *testing.T) {
	for _, c := range []struct {
		others []float64
		tries  int
		want   float64
		took   int
	}{
		{[]float64{0.1, 0}, 3, 0.1, 1},
		{[]float64{0.9, 0.2, 0}, 3, 0.2, 2},
		{[]float64{0.9, 0.4, 0.6, 0}, 3, 0.4, 3},
		{[]float64{0.9, 0}, 1, 0.9, 1},
		{[]float64{0.9, 0}, 0, 0.9, 1},
	} {
		took := 0
		m, err := quietest(c.tries, 0.25, func() (measurement, error) {
			took++
			return measurement{others: c.others[took-1]}, nil
		})
		if err != nil || m.others != c.want || took != c.took {
			t.Errorf("%v, at most %d: %v after %d, %v; want %v after %d", c.others, c.tries, m.others, took, err, c.want, c.took)
		}
	}
}

func TestFailedMeasurementIsNotRetried(t *testing.T) {
	broken := errors.New("broken")
	took := 0
	_, err := quietest(3, 0.25, func() (measurement, error) {
		if took++; took == 2 {
			return measurement{}, broken
		}
		return measurement{others: 1}, nil
	})
	if !errors.Is(err, broken) || took != 2 {
		t.Errorf("%v after %d, want %v after 2", err, took, broken)
	}
}
