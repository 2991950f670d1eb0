package commitlog

import (
	"sync/atomic"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// writtenBytes counts the bytes that are written to segments.
type writtenBytes struct{ n atomic.Int64 }

func (w *writtenBytes) Begin(op vfs.Op, _ vfs.File) (int, error) {
	if op.Kind == vfs.OpWrite {
		w.n.Add(op.Len)
	}
	return 0, nil
}

func (w *writtenBytes) End(int) {}

// TestOnlySmallSyncedAppendsAreWrittenTwice: zeros ahead of an append make its sync faster. A batch
// of a hundred small messages gains nothing from them.
func TestOnlySmallSyncedAppendsAreWrittenTwice(t *testing.T) {
	for _, tc := range []struct {
		size        int
		least, most float64 // bytes written for each byte of a batch
	}{
		{2 << 10, 1.8, 2.1},
		{12 << 10, 0.99, 1.1},
	} {
		var written writtenBytes
		l, _ := mustOpen(t, hook.New(vfs.NewMem(), &written, false), Options{})
		w := mustWriter(t, l, 1)
		const total = 8 << 20
		for range total / tc.size {
			batch := new(Builder)
			batch.Next(tc.size - headerBytes - 4)
			if _, err := w.Append(batch, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil { // waits for the last fill
			t.Fatal(err)
		}
		if got := float64(written.n.Load()) / total; got < tc.least || got > tc.most {
			t.Errorf("batches of %d bytes: %.2f bytes written for each, want %.1f to %.1f", tc.size, got, tc.least, tc.most)
		}
	}
}
