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
	// All that is allocated on the way counts, garbage included: that is more than
	// what stays, and does not depend on what is collected meanwhile.
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	buffers := NewBuffers()
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
