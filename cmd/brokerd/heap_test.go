package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestCollectorCountsHeapFloor: a node with a small heap can discard as many bytes as the floor
// before the collector runs.
func TestCollectorCountsHeapFloor(t *testing.T) {
	onHeapFloor(func() int {
		runtime.GC()
		goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(goal)
		if got := goal[0].Value.Uint64(); got < 2*heapFloorBytes {
			t.Errorf("the collector runs at %d bytes, with a floor of %d", got, heapFloorBytes)
		}
		return 0
	})
}

func TestIdleProcessCollectsGarbage(t *testing.T) {
	const mb = 1 << 20
	var allocated, live uint64
	collections := 0
	c := idleCollector{
		read:    func() (uint64, uint64) { return allocated, live },
		collect: func() { collections++; allocated += mb / 4 },
	}
	for i, step := range []struct {
		adds, live uint64
		want       int // collections until then
	}{
		{adds: 3 * mb, live: 17 * mb, want: 0},  // at the start: too little garbage
		{adds: 10 * mb, live: 17 * mb, want: 0}, // busy
		{adds: 4 * mb, live: 17 * mb, want: 1},  // idle
		{adds: mb, live: 17 * mb, want: 1},      // already collected
		{adds: mb, live: 17 * mb, want: 1},
		{adds: mb, live: 17 * mb, want: 1},
		{adds: mb, live: 17 * mb, want: 2},                       // slow growth
		{adds: 100 * mb, live: heapFloorBytes + 400*mb, want: 2}, // busy
		{adds: 0, live: heapFloorBytes + 400*mb, want: 2},        // a quarter of the memory in use
		{adds: 100 * mb, live: heapFloorBytes + 400*mb, want: 2},
		{adds: 0, live: heapFloorBytes + 400*mb, want: 3}, // half
	} {
		allocated, live = allocated+step.adds, step.live
		c.look()
		if collections != step.want {
			t.Errorf("step %d: %d collections, not %d", i, collections, step.want)
		}
	}
}

// Resting logs release memory without allocating any: the idle process collects once more for that,
// and not again before it was busy.
func TestIdleGarbageIsCollectedOnce(t *testing.T) {
	const mb = 1 << 20
	var allocated uint64
	collections := 0
	c := idleCollector{
		read:    func() (uint64, uint64) { return allocated, 300 * mb },
		collect: func() { collections++ },
	}
	for spell := range 3 {
		allocated += 300 * mb
		c.look()
		for range 10 * givenBackAfter {
			c.look()
		}
		if want := 2 * (spell + 1); collections != want {
			t.Fatalf("%d collections behind load %d, not %d", collections, spell+1, want)
		}
	}
}
