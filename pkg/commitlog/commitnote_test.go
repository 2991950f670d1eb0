package commitlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestTheCommitNoteWaitsForTheJournal commits what is in a redo journal, which brings it
// back after a kill, and what is not.
func TestTheCommitNoteWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		fsys, _, err := redo.Open(disk, redo.Options{Root: "data", Dir: "data/journal", FileBytes: 64 << 10, Together: 1, Age: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		o := smallOptions()
		o.SegmentBytes = 64 << 10
		l, _ := mustOpen(t, fsys, o)
		w := mustWriter(t, l, 1)
		noted := func(want seq.Offset, when string) {
			t.Helper()
			if n, err := readCommitNote(disk, testDir); err != nil || n.committed != want {
				t.Errorf("%s, %d of %d are noted, want %d (%v)", when, n.committed, l.End(), want, err)
			}
		}
		mustAppend(t, w, 1)
		mustSync(t, w)
		mustAppend(t, w, 2)
		mustSync(t, w) // directly, too, and has the journal made
		synctest.Wait()
		l.Commit(3)
		noted(3, "after a direct sync")
		mustAppend(t, w, 2)
		mustSync(t, w)
		if !vfs.Deferred(l.out.file) {
			t.Fatal("the journal was not used")
		}
		l.Commit(5)
		noted(3, "after a sync through the journal")
		mustAppend(t, w, 2)
		l.Commit(7)
		noted(7, "of what was not synced")
		mustSync(t, w)
		mustAppend(t, w, 1)
		mustSync(t, w)
		l.Commit(8)
		noted(7, "in the journal again")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		noted(8, "after the log was closed")
		if err := fsys.Close(); err != nil {
			t.Fatal(err)
		}
		noted(8, "at the end")
	})
}
