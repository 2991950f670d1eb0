package commitlog

import (
	"runtime"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestAnEmptyLogIsSmall(t *testing.T) {
	const logs, limit = 2000, 2048
	fsys := vfs.NewMem()
	keep := make([]*Log, logs)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	buffers := NewBuffers()
	before := heap()
	for i := range keep {
		keep[i], _ = mustOpen(t, fsys, Options{Buffers: buffers})
		mustWriter(t, keep[i], 1)
	}
	each := (heap() - before) / logs
	t.Logf("%d bytes each", each)
	if each > limit {
		t.Errorf("an empty log takes %d bytes, should be below %d", each, limit)
	}
	runtime.KeepAlive(keep)
}
