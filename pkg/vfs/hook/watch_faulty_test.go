package hook_test

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

func TestWatchReportsStalledCalls(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	w := hook.NewWatch(faulty)
	if err := w.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := w.Create("d/f")
	if err != nil {
		t.Fatal(err)
	}
	if n, op, ok := w.Oldest(); ok {
		t.Fatalf("%d, %v is under way after all has returned", n, op)
	}
	hang, asked := make(chan struct{}), make(chan struct{}, 1)
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind != vfs.OpSyncData {
			return vfstest.Fault{}
		}
		asked <- struct{}{}
		return vfstest.Fault{Hang: hang}
	})
	synced := make(chan error)
	go func() { synced <- f.SyncData() }()
	<-asked
	first, op, ok := w.Oldest()
	if !ok || op.Kind != vfs.OpSyncData || op.Name != "d/f" {
		t.Fatalf("%v %v, want the sync of d/f", op, ok)
	}
	if _, err := f.WriteAt([]byte("later"), 0); err != nil {
		t.Fatal(err)
	}
	if again, _, ok := w.Oldest(); !ok || again != first {
		t.Errorf("%d, %v: the sync that hangs has another number than %d", again, ok, first)
	}
	close(hang)
	if err := <-synced; err != nil {
		t.Fatal(err)
	}
	if _, op, ok := w.Oldest(); ok {
		t.Errorf("%v is under way after it has returned", op)
	}
}

func TestWatchPassesCallsThrough(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	w := hook.NewWatch(faulty)
	f, err := w.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Err: broken, Short: 2} })
	n, err := f.WriteAt([]byte("abc"), 0)
	if n != 2 || !errors.Is(err, broken) {
		t.Errorf("wrote %d, %v", n, err)
	}
	for name, do := range map[string]func() error{
		"sync": f.Sync, "data": f.SyncData, "truncate": func() error { return f.Truncate(0) },
		"preallocate": func() error { return f.Preallocate(0, 1) }, "rename": func() error { return w.Rename("f", "g") },
		"mkdir": func() error { return w.MkdirAll("d") }, "syncdir": func() error { return w.SyncDir(".") },
		"create": func() error { _, err := w.Create("h"); return err },
		"open":   func() error { _, err := w.OpenReadWrite("f"); return err },
	} {
		if err := do(); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
