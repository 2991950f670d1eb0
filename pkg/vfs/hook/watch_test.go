package hook

import (
	"fmt"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestWatchReportsOldestOfMany(t *testing.T) {
	rnd := testrand.New(t)
	w := NewWatch(vfs.NewMem())
	var names []string // of operations in progress, oldest first
	slots := map[string]int{}
	for i := range 2000 {
		if len(names) == 0 || len(names) < 40 && rnd.IntN(2) == 0 {
			name := fmt.Sprint(i)
			names = append(names, name)
			slots[name], _ = (*watching)(w).Begin(vfs.Op{Kind: vfs.OpSync, Name: name}, nil)
		} else {
			at := rnd.IntN(len(names))
			(*watching)(w).End(slots[names[at]])
			names = slices.Delete(names, at, at+1)
		}
		_, op, ok := w.Oldest()
		if ok != (len(names) > 0) || ok && op.Name != names[0] {
			t.Fatalf("after %d: %v %v, want the first of %v", i, op, ok, names)
		}
	}
}

// nothingFile is a file on which all succeeds at once.
type nothingFile struct{ vfs.File }

func (nothingFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nothingFile) SyncData() error                        { return nil }
func (nothingFile) Sync() error                            { return nil }
func (nothingFile) Truncate(int64) error                   { return nil }
func (nothingFile) Preallocate(_, _ int64) error           { return nil }

// watchedNothing returns what a Watch hands out for a nothingFile.
func watchedNothing() vfs.File { return &hookedFile{nothingFile{}, NewWatch(nil).FS, "f"} }

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
