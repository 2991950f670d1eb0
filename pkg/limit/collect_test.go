package limit

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGarbageIsCollectedBeforeLargeAllocation(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	collections := func(limit int64, n int) uint32 {
		t.Helper()
		debug.SetMemoryLimit(limit)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		BeforeAllocating(n)
		runtime.ReadMemStats(&after)
		return after.NumForcedGC - before.NumForcedGC
	}
	for _, tt := range []struct {
		name  string
		limit int64
		n     int
		want  uint32
	}{
		{"without a limit", math.MaxInt64, largeAllocation, 0},
		{"below the limit", 4 << 30, largeAllocation, 0},
		{"beyond the limit", 1 << 30, 1 << 30, 1},
		{"a small one", 1, largeAllocation - 1, 0},
	} {
		if got := collections(tt.limit, tt.n); got != tt.want {
			t.Errorf("%s: %d collections, want %d", tt.name, got, tt.want)
		}
	}
}
