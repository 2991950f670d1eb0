package limit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// largeAllocation is from how many bytes on BeforeAllocating looks at an allocation.
const largeAllocation = 16 << 20

// BeforeAllocating has the garbage collected before so many bytes are allocated at once,
// where they would bring the process above its memory limit: the runtime collects when it
// has passed its goal, and does not see how far the next allocation goes beyond.
func BeforeAllocating(n int) {
	if n < largeAllocation {
		return
	}
	used := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(used)
	idle := used[1].Value.Uint64() + used[2].Value.Uint64() // free: taken before anything is asked of the machine
	if used[0].Value.Uint64()-idle+uint64(n) > uint64(debug.SetMemoryLimit(-1)) {
		runtime.GC()
	}
}
