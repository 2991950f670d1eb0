package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/brokerd/brokerd/internal/hugepage"
)

// heapFloorBytes is the minimum heap size assumed by the garbage collector. Nothing is ever
// written to this memory, so the system provides no pages for it.
const heapFloorBytes = 16 << 20

// When a process counts as idle, and how much garbage is worth collecting then.
const (
	idlePeriod      = time.Second
	idleBytes       = 4 << 20 // maximum allocation in a period
	leastGarbage    = 4 << 20 // minimum allocation since the last collection, and
	garbageLivePart = 2       // the inverse of its minimum ratio to the memory in use
	// givenBackAfter is the number of idle periods after which memory kept for a load has been
	// released: idle logs drop their tails in the second round of retention.
	givenBackAfter = 25
	// longestPause is how many busy periods are at most between two attempts to move memory into
	// huge pages.
	longestPause = 15
)

// onHeapFloor calls f while the collector runs only after about 18 MB of garbage: a busy node
// keeps a few MB, and its garbage would otherwise trigger the collector a hundred times a second.
// When the process is idle, its garbage is returned to the system. When it is busy, its heap moves
// into huge pages.
func onHeapFloor(f func() int) int {
	floor := make([]byte, heapFloorBytes)
	defer runtime.KeepAlive(floor)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	heap := hugepage.NewHeap(&floor[0])
	c := heapKeeper{read: heapSoFar, move: heap.Move, collect: func() {
		debug.FreeOSMemory()
		heap.Forget()
	}}
	go c.run(ctx)
	return f()
}

// heapSoFar returns how many bytes the process has allocated since it started, and how many were
// in use at the last collection. It does not stop the world.
func heapSoFar() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// heapKeeper collects the garbage of an idle process: the collector itself would run only after
// further allocations. It moves the memory of a busy process into huge pages. It is not safe for
// concurrent use.
type heapKeeper struct {
	read      func() (allocated, live uint64)
	collect   func()
	move      func() (moved int, err error)
	last      uint64 // allocated at the last check
	periods   int    // consecutive idle periods
	collected uint64 // allocated at the last collection here
	pause     int    // busy periods until memory is next moved into huge pages
	lastPause int
}

// enlarge moves memory into huge pages. If there was none to move, the next attempt is later. An
// error costs only speed.
func (c *heapKeeper) enlarge() {
	if c.pause > 0 {
		c.pause--
		return
	}
	moved, err := c.move()
	if c.lastPause = min(2*c.lastPause+1, longestPause); moved > 0 && err == nil {
		c.lastPause = 0
	}
	c.pause = c.lastPause
}

func (c *heapKeeper) run(ctx context.Context) {
	ticker := time.NewTicker(idlePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.look()
		}
	}
}

// look must be called once in each idlePeriod.
func (c *heapKeeper) look() {
	allocated, live := c.read()
	idle := allocated-c.last <= idleBytes
	c.last = allocated
	if !idle {
		c.periods = 0
		c.enlarge()
		return
	}
	c.periods++
	if c.periods != givenBackAfter && allocated-c.collected < max(leastGarbage, (live-min(live, heapFloorBytes))/garbageLivePart) {
		return
	}
	c.collect()
	c.pause, c.lastPause = 0, 0 // what was returned comes back in small pages
	c.collected, _ = c.read()
	c.last = c.collected
}
