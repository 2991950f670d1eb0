package commitlog

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestInspectReportsLikeOpenAndChangesNothing(t *testing.T) {
	fsys := vfs.NewMem()
	if e, err := Inspect(fsys, testDir, nil); err != nil || e.End != 0 {
		t.Fatalf("nothing there: %+v, %v", e, err)
	}
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 1)
	for range 20 {
		mustAppend(t, w, 3)
	}
	mustSync(t, w)
	l.Commit(45)
	mustClose(t, l)
	before, err := fsys.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Inspect(fsys, testDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, _ = mustOpen(t, fsys, smallOptions())
	if e.Start != l.Start() || e.End != l.End() || e.CommittedEnd != l.CommittedEnd() || e.End != 60 || len(e.Damaged) != 0 {
		t.Errorf("%+v; open: %d to %d, committed %d", e, l.Start(), l.End(), l.CommittedEnd())
	}
	mustClose(t, l)
	if after, err := fsys.ReadDir(testDir); err != nil || len(after) != len(before) {
		t.Errorf("%v after %v: %v", after, before, err)
	}
}
