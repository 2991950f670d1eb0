package commitlog

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Retention keeps finished messages that may be needed again, but the size limit has
// precedence.
func TestRetentionKeepsHeldSegments(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, l, 1)
	for range 100 {
		b := new(Builder)
		b.Next(100)
		if _, err := w.Append(b, time.Unix(1_700_000_000, 0).UnixNano()); err != nil {
			t.Fatal(err)
		}
	}
	mustSync(t, w)
	l.Commit(100)
	hold := seq.Offset(50)
	if _, err := l.Retain(Retention{Floor: 100, Hold: &hold}); err != nil {
		t.Fatal(err)
	}
	if l.Start() == 0 || l.Start() > hold {
		t.Errorf("the log starts at %d, want it above 0 and at %d at the most", l.Start(), hold)
	}
	if _, err := l.Retain(Retention{Floor: 100, Hold: &hold, MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	if l.Start() <= hold {
		t.Errorf("by size, the log starts at %d", l.Start())
	}
}
