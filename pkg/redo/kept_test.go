package redo

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// keptJournal returns what a start has left whose disk could not write to file b, and the path of
// the journal that it has kept. The journal holds "one" and "two", and before them a write that
// does not count any more.
func keptJournal(t *testing.T) (disk *vfs.Mem, journal string) {
	t.Helper()
	fsys := vfs.NewCrashable()
	s := begun(t, fsys, small())
	b := made(t, s, root+"/b")
	journaled(t, s, b, "ONE", 0)
	journaled(t, s, b, "one", 0)
	journaled(t, s, b, "two", 6)
	journaled(t, s, made(t, s, root+"/c"), "c", 0)
	left := fsys.CrashClone(vfs.Crash{})
	faulty := vfstest.NewFaulty(left)
	faulty.Decide(failing(vfs.OpWrite, root+"/b", vfstest.Fault{Err: syscall.EIO}))
	o := small()
	o.Unwritable = func(string, error) error { return nil }
	o.Retry = func(string) bool { return true } // it fails again
	s, r, err := Open(faulty, o)
	if err != nil || len(r.Kept) != 1 || len(r.Unfit) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return left, r.Kept[0]
}

// TestKeptJournalIsReplayedIfItFits: a file gets what it lacks unless it has got something else.
func TestKeptJournalIsReplayedIfItFits(t *testing.T) {
	for _, test := range []struct {
		about string
		is    string // in the file at the next start; "-": there is no file
		fails error  // of writes to it
		want  string
		from  int64 // what is reported; -1: nothing, and the journal is removed
	}{
		{"the file is empty", "", nil, "one\x00\x00\x00two", -1},
		{"it holds zeros", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", nil, "one\x00\x00\x00two\x00\x00\x00", -1},
		{"it holds a part", "one", nil, "one\x00\x00\x00two", -1},
		{"it holds something between", "one...", nil, "one...two", -1},
		{"it holds all", "one...two", nil, "one...two", -1},
		{"it holds more", "one...two, three", nil, "one...two, three", -1},
		{"there is no file", "-", nil, "", -1},
		{"it holds something else at the end", "one...2", nil, "one...2", 6},
		{"it holds something else", "eins", nil, "eins", 0},
		{"it holds what does not count any more", "ONE", nil, "ONE", 0},
		{"it still cannot be written", "", syscall.EIO, "", 0},
	} {
		t.Run(test.about, func(t *testing.T) {
			disk, journal := keptJournal(t)
			if test.is == "-" {
				if err := disk.Remove(root + "/b"); err != nil {
					t.Fatal(err)
				}
			} else if err := vfs.WriteFileSynced(disk, root+"/b", []byte(test.is)); err != nil {
				t.Fatal(err)
			}
			faulty := vfstest.NewFaulty(disk)
			faulty.Decide(failing(vfs.OpWrite, root+"/b", vfstest.Fault{Err: test.fails}))
			o := small()
			o.Retry = func(path string) bool { return filepath.Base(path) == "b" }
			s, r, err := Open(faulty, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			_, gone := disk.Stat(journal)
			switch {
			case test.from < 0 && (len(r.Unfit) > 0 || len(r.Retried) != 1 || gone == nil):
				t.Errorf("%+v, journal: %v", r, gone)
			case test.from >= 0 && (len(r.Unfit) != 1 || len(r.Retried) > 0 || gone != nil):
				t.Errorf("%+v, journal: %v", r, gone)
			case test.from >= 0:
				if k := r.Unfit[0]; k.Journal != journal || k.Path != root+"/b" || k.From != test.from || !errors.Is(k.Err, test.fails) {
					t.Errorf("%+v", k)
				}
			}
			if test.is == "-" {
				return
			}
			if got, err := vfs.ReadFile(disk.CrashClone(vfs.Crash{}), root+"/b", 100); err != nil || string(got) != test.want {
				t.Errorf("the file has %q, want %q, %v", got, test.want, err)
			}
		})
	}
}

// TestOtherFilesDoNotHoldAKeptJournal: those for which Retry does not ask.
func TestOtherFilesDoNotHoldAKeptJournal(t *testing.T) {
	disk, journal := keptJournal(t)
	o := small()
	o.Retry = func(string) bool { return false }
	if _, r, err := Open(disk, o); err != nil || len(r.Retried) != 1 || len(r.Unfit) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := disk.Stat(journal); err == nil {
		t.Error("the journal is there, which has nothing for anybody")
	}
}

// TestFileIsTriedAgainAtOnce: a disk that fails for a moment loses nothing.
func TestFileIsTriedAgainAtOnce(t *testing.T) {
	for _, fails := range []int{rewriteTries - 1, rewriteTries} {
		fsys := vfs.NewCrashable()
		s := begun(t, fsys, small())
		journaled(t, s, made(t, s, root+"/b"), "one", 0)
		journaled(t, s, made(t, s, root+"/c"), "two", 0)
		left := fsys.CrashClone(vfs.Crash{})
		faulty := vfstest.NewFaulty(left)
		failed := 0
		faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData && op.Name == root+"/b" && failed < fails {
				failed++
				return vfstest.Fault{Err: syscall.EIO}
			}
			return vfstest.Fault{}
		})
		o := small()
		told := 0
		o.Unwritable = func(string, error) error { told++; return nil }
		_, r, err := Open(faulty, o)
		if err != nil {
			t.Fatal(err)
		}
		if lost := fails == rewriteTries; (told > 0) != lost || (len(r.Kept) > 0) != lost || !lost && r.Files != 2 {
			t.Errorf("%d failures: told %d times, %+v", fails, told, r)
		}
		if got, err := vfs.ReadFile(left.CrashClone(vfs.Crash{}), root+"/b", 100); fails < rewriteTries && (err != nil || string(got) != "one") {
			t.Errorf("%d failures: %q, %v", fails, got, err)
		}
	}
}
