package commitlog

import (
	"runtime"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestEmptyLogIsSmall(t *testing.T) {
	const logs, limit = 2000, 2048
	fsys := vfs.NewMem()
	keep := make([]*Log, logs)
	// All allocations count, including garbage. That is more than the memory in
	// use, but does not depend on the garbage collector.
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	buffers := new(Buffers)
	before := allocated()
	for i := range keep {
		keep[i], _ = mustOpen(t, fsys, Options{Buffers: buffers})
		mustWriter(t, keep[i], 1)
	}
	each := (allocated() - before) / logs
	t.Logf("%d bytes each", each)
	if each > limit {
		t.Errorf("an empty log takes %d bytes, should be below %d", each, limit)
	}
}
