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
	c := heapKeeper{
		read:    func() (uint64, uint64) { return allocated, live },
		collect: func() { collections++; allocated += mb / 4 },
		move:    func() (int, error) { return 0, nil },
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
	c := heapKeeper{
		read:    func() (uint64, uint64) { return allocated, 300 * mb },
		collect: func() { collections++ },
		move:    func() (int, error) { return 0, nil },
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

// While there is memory to move, a busy process moves it every period, and rarely otherwise. An idle
// process does not: what it returned would be taken from the system again.
func TestBusyProcessMovesMemoryIntoHugePages(t *testing.T) {
	var allocated uint64
	moves, left := 0, 0
	c := heapKeeper{
		read:    func() (uint64, uint64) { return allocated, heapFloorBytes },
		collect: func() {},
		move: func() (int, error) {
			moves++
			n := min(left, 1)
			left -= n
			return n, nil
		},
	}
	busy := func(periods int) int {
		before := moves
		for range periods {
			allocated += 100 << 20
			c.look()
		}
		return moves - before
	}
	left = 5
	if n := busy(6); n != 6 {
		t.Errorf("%d attempts in 6 periods with memory to move", n)
	}
	if n := busy(1000); n < 1000/(longestPause+1) || n > 1000/longestPause+4 {
		t.Errorf("%d attempts in 1000 periods without", n)
	}
	before := moves
	for range 100 {
		c.look()
	}
	if moves != before {
		t.Errorf("an idle process made %d attempts", moves-before)
	}
	left = 5 // the idle process returned memory
	if n := busy(6); n != 6 {
		t.Errorf("%d attempts in 6 periods after it was idle", n)
	}
}
