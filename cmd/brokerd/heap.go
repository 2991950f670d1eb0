package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapFloorBytes is how much of the heap the garbage collector takes to be in use at
// the least. Nothing is ever written there, so the machine provides no memory for it.
const heapFloorBytes = 16 << 20

// When a process counts as idle, and what is worth collecting then.
const (
	idlePeriod      = time.Second
	idleBytes       = 4 << 20 // allocated in a period, at most
	leastGarbage    = 4 << 20 // allocated since the last collection, at least; and
	garbageLivePart = 2       // the part of what is in use that it must be
	// givenBackAfter is after how many idle periods what a load was kept for has been given
	// up: logs that rest drop their tails in the second round of retention.
	givenBackAfter = 25
)

// onHeapFloor calls f while the collector runs after some 18 MB of garbage at the
// earliest: a busy node keeps few MB, and what it throws away would have the collector
// run a hundred times a second. Once the process is idle its garbage goes back to the
// machine.
func onHeapFloor(f func() int) int {
	floor := make([]byte, heapFloorBytes)
	defer runtime.KeepAlive(floor)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := idleCollector{read: heapSoFar, collect: debug.FreeOSMemory}
	go c.run(ctx)
	return f()
}

// heapSoFar returns how many bytes the process has allocated since it started, and how
// many were in use at the last collection. The world need not stop for it.
func heapSoFar() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// idleCollector collects the garbage of a process that has become idle: the collector
// itself would only run when there is more. It is not for concurrent use.
type idleCollector struct {
	read      func() (allocated, live uint64)
	collect   func()
	last      uint64 // allocated at the last look
	periods   int    // for which the process has been idle
	collected uint64 // allocated at the last collection here
}

func (c *idleCollector) run(ctx context.Context) {
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

// look is called once in each idlePeriod.
func (c *idleCollector) look() {
	allocated, live := c.read()
	idle := allocated-c.last <= idleBytes
	c.last = allocated
	if !idle {
		c.periods = 0
		return
	}
	c.periods++
	if c.periods != givenBackAfter && allocated-c.collected < max(leastGarbage, (live-min(live, heapFloorBytes))/garbageLivePart) {
		return
	}
	c.collect()
	c.collected, _ = c.read()
	c.last = c.collected
}
