package commitlog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestCommitRecordWaitsForJournal commits batches that are in a redo journal, which
// restores them after a kill, and batches that are not.
func TestCommitRecordWaitsForJournal(t *testing.T) {
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
			if n, err := commitnote.Read(disk, testDir); err != nil || n.Committed != want {
				t.Errorf("%s, %d of %d are noted, want %d (%v)", when, n.Committed, l.End(), want, err)
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

// TestOnlySyncAlwaysDefersWrites appends without a sync, with and without a
// writer's statement that each append is synced.
func TestOnlySyncAlwaysDefersWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		o := redo.Options{Root: "data", Dir: "data/journal", FileBytes: 64 << 10, Together: 1, Age: time.Hour}
		fsys, _, err := redo.Open(disk, o)
		if err != nil {
			t.Fatal(err)
		}
		l, _ := mustOpen(t, fsys, smallOptions())
		w := mustWriter(t, l, 1)
		left := func() seq.Offset {
			t.Helper()
			again, _, err := redo.Open(disk.CrashClone(vfs.Crash{KeepPercent: 100}), o)
			if err != nil {
				t.Fatal(err)
			}
			l, _ := mustOpen(t, again, smallOptions())
			return l.End()
		}
		for range 3 { // the first makes the journal
			mustAppend(t, w, 1)
			mustSync(t, w)
			synctest.Wait()
		}
		mustAppend(t, w, 1)
		if end := left(); end != 4 {
			t.Errorf("a kill leaves %d messages of 4 that no sync was promised for", end)
		}
		mustSync(t, w)
		w.SyncsEach(true)
		mustAppend(t, w, 1)
		if end := left(); end != 4 {
			t.Errorf("a kill leaves %d messages: the last was written though its sync comes", end)
		}
		mustSync(t, w)
		if end := left(); end != 5 {
			t.Errorf("a kill leaves %d messages of 5 that were synced", end)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestKillMayMoveCommittedEndBack: to the one in the last batch, while the journal holds the
// batches. All of them are there.
func TestKillMayMoveCommittedEndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		o := redo.Options{Root: "data", Dir: "data/journal", FileBytes: 64 << 10, Together: 1, Age: time.Hour}
		fsys, _, err := redo.Open(disk, o)
		if err != nil {
			t.Fatal(err)
		}
		large := smallOptions()
		large.SegmentBytes = 64 << 10
		l, _ := mustOpen(t, fsys, large)
		w := mustWriter(t, l, 1)
		for range 9 { // the first makes the journal
			mustAppend(t, w, 1)
			mustSync(t, w)
			synctest.Wait()
			if end := l.End(); end < 8 {
				l.Commit(end)
			}
		}
		l.Commit(9)
		for _, keep := range []int{0, 100} { // a loss of power, and a kill
			again, _, err := redo.Open(disk.CrashClone(vfs.Crash{KeepPercent: keep}), o)
			if err != nil {
				t.Fatal(err)
			}
			if l, _ := mustOpen(t, again, large); l.End() != 9 || l.CommittedEnd() != 7 {
				t.Errorf("of 9 messages %d are left, committed to %d; the last batch carries 7", l.End(), l.CommittedEnd())
			}
		}
		if err := errors.Join(l.Close(), fsys.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTornCommitNoteKeepsTheOneBefore: a power failure may damage the slot that is being written,
// and no other.
func TestTornCommitNoteKeepsTheOneBefore(t *testing.T) {
	disk := vfs.NewMem()
	l, _ := mustOpen(t, disk, smallOptions())
	w := mustWriter(t, l, 1)
	for end := seq.Offset(1); end <= 5; end++ {
		mustAppend(t, w, 1)
		mustSync(t, w)
		l.Commit(end)
		lowest := end
		for slot := range int64(commitnote.Slots) {
			clone := vfs.NewMem()
			if err := clone.MkdirAll(testDir); err != nil {
				t.Fatal(err)
			}
			p, err := vfs.ReadFile(disk, testDir+"/"+commitnote.Name, 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			if at := slot*commitnote.SlotBytes + 9; at < int64(len(p)) {
				p[at] ^= 0xff
			}
			if err := vfs.WriteFileSynced(clone, testDir+"/"+commitnote.Name, p); err != nil {
				t.Fatal(err)
			}
			n, err := commitnote.Read(clone, testDir)
			if err != nil {
				t.Fatal(err)
			}
			lowest = min(lowest, n.Committed)
		}
		if lowest != end-1 {
			t.Errorf("%d are committed, and one torn slot leaves %d", end, lowest)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
