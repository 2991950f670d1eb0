package redo

import (
	"os"
	"testing"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const goldenFile = "testdata/journal-1.golden"

func TestFormatIsTheDocumentedOne(t *testing.T) {
	fsys := vfs.NewMem()
	s := begun(t, fsys, small())
	f, g := made(t, s, root+"/00000000000000000000.log"), made(t, s, root+"/positions")
	journaled(t, s, f, "batch", 64)
	journaled(t, s, g, "position", 0)
	journaled(t, s, f, "batch", 69)
	if err := g.Sync(); err != nil {
		t.Fatal(err)
	}
	got, err := vfs.ReadFile(fsys, halfPath(small().Dir, 0), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got = got[:headBytes+4*alignment]
	golden.Compare(t, goldenFile, got)
}

// FuzzReplay opens what may lie in the place of a journal.
func FuzzReplay(f *testing.F) {
	journal, err := os.ReadFile(goldenFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(journal)
	f.Add(journal[:headBytes+100])
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := vfs.NewMem()
		if err := vfs.MkdirAllSynced(fsys, small().Dir); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileSynced(fsys, halfPath(small().Dir, 1), content); err != nil {
			t.Fatal(err)
		}
		s, _, err := Open(fsys, small())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, r, err := Open(fsys, small()); err != nil || r.Records > 0 || r.Damaged {
			t.Fatalf("the second start found %+v, %v", r, err)
		}
	})
}
