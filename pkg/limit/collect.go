package limit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// largeAllocation is the size from which on BeforeAllocating checks an allocation.
const largeAllocation = 16 << 20

// BeforeAllocating runs the garbage collector before an allocation of n bytes that would exceed
// the memory limit of the process. The runtime collects only after it has passed its goal, and
// does not know the size of the next allocation.
func BeforeAllocating(n int) {
	if n < largeAllocation {
		return
	}
	used := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(used)
	idle := used[1].Value.Uint64() + used[2].Value.Uint64() // free memory that is used before more is requested from the system
	if used[0].Value.Uint64()-idle+uint64(n) > uint64(debug.SetMemoryLimit(-1)) {
		runtime.GC()
	}
}
