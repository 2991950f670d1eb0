package nsqd

import "testing"

func TestPercentile(t *testing.T) {
	sorted := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[int]uint64{100: 10, 99: 10, 95: 10, 90: 9, 50: 5, 0: 1} {
		if got := percentile(sorted, p); got != want {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if percentile(nil, 99) != 0 {
		t.Error("none has a percentile")
	}
}
