package redo

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	o.Compare = func(string) bool { return true }
	s, r, err := Open(faulty, o)
	if err != nil || len(r.Kept) != 1 || len(r.Lacks) != 1 || r.Lacks[0].Path != root+"/b" {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return left, r.Kept[0]
}

// TestKeptJournalIsCompared: what a file lacks is reported, and never written: the file may have dropped
// it since.
func TestKeptJournalIsCompared(t *testing.T) {
	for _, test := range []struct {
		about string
		is    string // in the file at the next start; "-": there is no file
		fails error  // of reads of it
		from  int64  // what is reported; -1: nothing, and the journal is removed
	}{
		{"the file is empty", "", nil, 0},
		{"it holds zeros", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", nil, 0},
		{"it holds a part", "one", nil, 6},
		{"it holds all but a byte", "one...tw", nil, 8},
		{"it holds all", "one...two", nil, -1},
		{"it holds more", "one...two, three", nil, -1},
		{"there is no file", "-", nil, -1},
		{"it holds something else at the end", "one...2", nil, 6},
		{"it holds something else", "eins", nil, 0},
		{"it holds what does not count any more", "ONE...two", nil, 0},
		{"it cannot be read", "one...two", syscall.EIO, 0},
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
			faulty.Decide(failing(vfs.OpRead, root+"/b", vfstest.Fault{Err: test.fails}))
			r := comparedTo(t, faulty, func(path string) bool { return filepath.Base(path) == "b" })
			_, gone := disk.Stat(journal)
			switch {
			case test.from < 0 && (len(r.Lacks) > 0 || len(r.Dropped) != 1 || gone == nil):
				t.Errorf("%+v, journal: %v", r, gone)
			case test.from >= 0 && (len(r.Lacks) != 1 || len(r.Dropped) > 0 || gone != nil):
				t.Errorf("%+v, journal: %v", r, gone)
			case test.from >= 0:
				if k := r.Lacks[0]; k.Path != root+"/b" || k.From != test.from || !errors.Is(k.Err, test.fails) {
					t.Errorf("%+v", k)
				}
			}
			if test.is == "-" {
				return
			}
			if got, err := vfs.ReadFile(disk, root+"/b", 100); err != nil || string(got) != test.is {
				t.Errorf("the file has %q, had %q, %v", got, test.is, err)
			}
		})
	}
}

// TestKeptJournalIsRead: an operator finds in it what no file has.
func TestKeptJournalIsRead(t *testing.T) {
	disk, journal := keptJournal(t)
	got, err := ReadKept(disk, journal)
	want := map[string][]Run{"b": {{0, []byte("one")}, {6, []byte("two")}}, "c": {{0, []byte("c")}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := ReadKept(disk, journal+"0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is none: %v", err)
	}
}

func TestWritesAreJoined(t *testing.T) {
	w := func(off int64, text string) again { return again{off, []byte(text)} }
	for _, test := range []struct {
		all  []again
		want []Run
	}{
		{nil, nil},
		{[]again{w(3, "def"), w(0, "abc")}, []Run{{0, []byte("abcdef")}}},
		{[]again{w(0, "abcdef"), w(2, "XY")}, []Run{{0, []byte("abXYef")}}},
		{[]again{w(2, "XY"), w(0, "abcdef")}, []Run{{0, []byte("abcdef")}}},
		{[]again{w(9, "z"), w(0, "a"), w(8, "yz!")}, []Run{{0, []byte("a")}, {8, []byte("yz!")}}},
	} {
		if diff := cmp.Diff(test.want, runsOf(test.all)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.all, diff)
		}
	}
}

// comparedTo opens what is left, and returns what it reports.
func comparedTo(t *testing.T, fsys vfs.FS, compare func(string) bool) Report {
	t.Helper()
	o := small()
	o.Compare = compare
	s, r, err := Open(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOtherFilesDoNotHoldAKeptJournal: those that Compare does not choose.
func TestOtherFilesDoNotHoldAKeptJournal(t *testing.T) {
	disk, journal := keptJournal(t)
	if r := comparedTo(t, disk, func(string) bool { return false }); len(r.Dropped) != 1 || len(r.Lacks) > 0 {
		t.Errorf("%+v", r)
	}
	if _, err := disk.Stat(journal); err == nil {
		t.Error("the journal is there, which has nothing for anybody")
	}
}

// TestDamagedKeptJournalStays: what it held is not known.
func TestDamagedKeptJournalStays(t *testing.T) {
	for _, at := range []int64{0, headBytes + 5} {
		disk, journal := keptJournal(t)
		if err := vfs.WriteFileSynced(disk, root+"/b", []byte("one...two")); err != nil {
			t.Fatal(err)
		}
		f, err := disk.OpenReadWrite(journal)
		if err == nil {
			_, err = f.WriteAt([]byte{0xff}, at)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if r := comparedTo(t, disk, func(string) bool { return true }); len(r.Lacks) == 0 || r.Lacks[len(r.Lacks)-1].Path != journal && r.Lacks[0].Path != journal {
			t.Errorf("byte %d: %+v", at, r)
		}
		if _, err := disk.Stat(journal); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
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
			if op.Kind == vfs.OpWrite && op.Name == root+"/b" && failed < fails {
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

// TestFailedSyncIsNotTriedAgain: the system may have dropped what it could not write, and a second sync
// would succeed without it.
func TestFailedSyncIsNotTriedAgain(t *testing.T) {
	fsys := vfs.NewCrashable()
	s := begun(t, fsys, small())
	journaled(t, s, made(t, s, root+"/b"), "one", 0)
	faulty := vfstest.NewFaulty(fsys.CrashClone(vfs.Crash{}))
	failed := 0
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && op.Name == root+"/b" && failed == 0 {
			failed++
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	o := small()
	told := 0
	o.Unwritable = func(string, error) error { told++; return nil }
	if _, r, err := Open(faulty, o); err != nil || told != 1 || len(r.Kept) != 1 {
		t.Errorf("told %d times, %+v, %v", told, r, err)
	}
}
