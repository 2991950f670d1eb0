package simtest

import (
	"fmt"
	"testing"
)

// Agreement is how far two runs of the same seed went alike.
type Agreement struct {
	Same  int // leading events that are equal, with their times
	Total int // events of the longer run
}

// Whole says whether the runs were the same.
func (a Agreement) Whole() bool { return a.Same == a.Total }

// Agree compares the sums of two traces.
func Agree(a, b []uint64) Agreement {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	return Agreement{same, max(len(a), len(b))}
}

// Compared returns how many seeds are compared, or how often one is run again.
func (s *Seeds) Compared() int { return *s.compare }

// Compare runs seeds twice, one run after the other, and logs how often the second run
// was the first again, event by event and at the same virtual times, and how far the
// others went alike. It fails where a run differs from the first event on, which holds
// what the seed plans: a seed then no longer fixes its run at all.
func (s *Seeds) Compare(t *testing.T, run func(t *testing.T, seed uint64) *Trace) {
	t.Helper()
	whole, parts := 0, 0.0
	first := *s.first
	if *s.one != 0 {
		first = *s.one
	}
	for i := range uint64(s.Compared()) { //nolint:gosec // how many is not negative
		seed := first + i
		var sums [2][]uint64
		for k := range sums {
			t.Run(fmt.Sprint("seed", seed, "run", k+1), func(t *testing.T) {
				s.guard(t, seed, func(t *testing.T, seed uint64) { sums[k] = run(t, seed).Sums() })
			})
		}
		a := Agree(sums[0], sums[1])
		if a.Whole() {
			whole++
		}
		if a.Same == 0 {
			t.Errorf("seed %d: two runs differ from their first event on", seed)
		}
		parts += float64(a.Same) / float64(max(1, a.Total))
		t.Logf("seed %d: %d of %d events alike", seed, a.Same, a.Total)
	}
	t.Logf("%d of %d seeds ran twice the same; on average the first %.0f%% of the events agree", whole, s.Compared(), 100*parts/float64(max(1, s.Compared())))
}
