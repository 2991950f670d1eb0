package vfs

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
)

func TestWatchKnowsWhatHangs(t *testing.T) {
	faulty := NewFaulty(NewMem())
	w := NewWatch(faulty)
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
	faulty.Decide(func(_ int64, op Op) Fault {
		if op.Kind != OpSyncData {
			return Fault{}
		}
		asked <- struct{}{}
		return Fault{Hang: hang}
	})
	synced := make(chan error)
	go func() { synced <- f.SyncData() }()
	<-asked
	first, op, ok := w.Oldest()
	if !ok || op.Kind != OpSyncData || op.Name != "d/f" {
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

func TestWatchHandsOnWhatItWatches(t *testing.T) {
	faulty := NewFaulty(NewMem())
	w := NewWatch(faulty)
	f, err := w.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	faulty.Decide(func(int64, Op) Fault { return Fault{Err: broken, Short: 2} })
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

func TestWatchKnowsTheOldestOfMany(t *testing.T) {
	rnd := testrand.New(t)
	w := NewWatch(NewMem())
	var names []string // of what is under way, oldest first
	slots := map[string]int{}
	for i := range 2000 {
		if len(names) == 0 || len(names) < 40 && rnd.IntN(2) == 0 {
			name := fmt.Sprint(i)
			names = append(names, name)
			slots[name] = w.begin(Op{Kind: OpSync, Name: name})
		} else {
			at := rnd.IntN(len(names))
			w.end(slots[names[at]])
			names = slices.Delete(names, at, at+1)
		}
		_, op, ok := w.Oldest()
		if ok != (len(names) > 0) || ok && op.Name != names[0] {
			t.Fatalf("after %d: %v %v, want the first of %v", i, op, ok, names)
		}
	}
}

// nothingFile is a file on which all succeeds at once.
type nothingFile struct{ File }

func (nothingFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nothingFile) SyncData() error                        { return nil }
func (nothingFile) Sync() error                            { return nil }
func (nothingFile) Truncate(int64) error                   { return nil }
func (nothingFile) Preallocate(_, _ int64) error           { return nil }

// watchedNothing returns what a Watch hands out for a nothingFile.
func watchedNothing() File { return &watchedFile{File: nothingFile{}, w: NewWatch(nil), name: "f"} }

func TestWatchingAllocatesNothing(t *testing.T) {
	f, p := watchedNothing(), make([]byte, 100)
	for name, do := range map[string]func() error{
		"write": func() error { _, err := f.WriteAt(p, 1000); return err },
		"sync":  f.Sync, "data": f.SyncData,
		"truncate":    func() error { return f.Truncate(1000) },
		"preallocate": func() error { return f.Preallocate(1000, 1000) },
	} {
		n := testing.AllocsPerRun(1000, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkWatchWrite(b *testing.B) {
	f, p := watchedNothing(), make([]byte, 100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.WriteAt(p, 1000); err != nil {
				b.Error(err)
			}
		}
	})
}
