package redo

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// journaled writes to a file and syncs it through the journal.
func journaled(t *testing.T, s *FS, f vfs.File, p string, off int64) {
	t.Helper()
	if _, err := f.WriteAt([]byte(p), off); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	if h, ok := f.(*handle); !ok || !s.journal.live(h.file) {
		t.Fatal("the sync did not go through the journal")
	}
}

// made returns a new file whose next syncs go through the journal.
func made(t *testing.T, s *FS, name string) vfs.File {
	t.Helper()
	f, err := s.Create(name)
	if err == nil {
		err = errors.Join(f.SyncData(), s.SyncDir(root))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// flip changes a byte of a file that is synced.
func flip(t *testing.T, fsys vfs.FS, name string, off int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1)
	if err := vfs.ReadFull(f, p, off); err != nil {
		t.Fatal(err)
	}
	p[0] ^= 4
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.SyncData(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// three journals three writes to one file, each in a separate record of 512 bytes,
// and returns the disk after a power loss.
func three(t *testing.T) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewCrashable()
	s := begun(t, fsys, small())
	f := made(t, s, root+"/f")
	for i, p := range []string{"one", "two", "six"} {
		journaled(t, s, f, p, int64(3*i))
	}
	return fsys.CrashClone(vfs.Crash{})
}

func TestDamageIsDistinguishedFromTornEnd(t *testing.T) {
	for _, test := range []struct {
		about   string
		at      int64
		damaged bool
		content string
	}{
		{"nothing", -1, false, "onetwosix"},
		{"the first record", headBytes + 40, true, ""},
		{"the second", headBytes + alignment + 36, true, "one\x00\x00\x00six"},
		{"the number of the second", headBytes + alignment + 24, true, "one\x00\x00\x00six"},
		{"the last, which may be torn", headBytes + 2*alignment + 36, false, "onetwo"},
		{"the head", 16, true, ""},
		{"what settled says", 12, true, ""},
		{"the padding of a record", headBytes + 500, false, "onetwosix"},
	} {
		left := three(t)
		if test.at >= 0 {
			flip(t, left, halfPath(small().Dir, 0), test.at)
		}
		o, told := small(), false
		o.Damaged = func() error {
			told = true
			return nil
		}
		s, r, err := Open(left, o)
		if err != nil || r.Damaged != test.damaged || told != test.damaged {
			t.Errorf("%s: %+v, told %v, %v", test.about, r, told, err)
			continue
		}
		got, err := vfs.ReadFile(s, root+"/f", 100)
		if err != nil || string(got) != test.content {
			t.Errorf("%s: %q, %v", test.about, got, err)
		}
		// It is repaired: the next start finds nothing.
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, r, err = Open(left, small()); err != nil || r.Damaged || r.Records > 0 {
			t.Errorf("%s, at the next start: %+v, %v", test.about, r, err)
		}
	}
}

func TestStartFailsIfDamageCannotBeRecorded(t *testing.T) {
	left := three(t)
	flip(t, left, halfPath(small().Dir, 0), headBytes+40)
	o := small()
	o.Damaged = func() error { return syscall.EIO }
	if _, _, err := Open(left, o); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	o.Damaged = nil
	if _, r, err := Open(left, o); err != nil || !r.Damaged {
		t.Errorf("at the next start: %+v, %v", r, err)
	}
}

// failing disturbs one kind of operation on one file.
func failing(kind vfs.OpKind, name string, fault vfstest.Fault) func(int64, vfs.Op) vfstest.Fault {
	return func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == kind && op.Name == name {
			return fault
		}
		return vfstest.Fault{}
	}
}

func TestFullDiskCreatesJournalWhenSpaceReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := vfstest.NewFaulty(vfs.NewMem())
		d.Decide(failing(vfs.OpPreallocate, halfPath(small().Dir, 1), vfstest.Fault{Err: syscall.ENOSPC}))
		if err := d.MkdirAll(root); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, d, small())
		f := made(t, s, root+"/f")
		for range 3 {
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			if err := f.SyncData(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if left, err := d.ReadDir(small().Dir); err != nil || len(left) > 0 {
			t.Fatalf("of a journal without room %q is left, %v", left, err)
		}
		d.Decide(nil)
		time.Sleep(small().Age + time.Second)
		s.journal.ready()
		synctest.Wait()
		journaled(t, s, f, "y", 0)
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestJournalSyncFailureFailsAllItsUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		o := small()
		o.Failed = func(error) { told++ }
		inner := vfs.NewMem()
		d := vfstest.NewFaulty(inner)
		s := begun(t, d, o)
		f, g := made(t, s, root+"/f"), made(t, s, root+"/g")
		journaled(t, s, f, "sure", 0)
		d.Decide(failing(vfs.OpSyncData, halfPath(o.Dir, 0), vfstest.Fault{Err: syscall.EIO}))
		for range 2 { // the second time the disk is well again: what was lost is not known
			if _, err := f.WriteAt([]byte("lost"), 4); err != nil {
				t.Fatal(err)
			}
			if err := f.SyncData(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("the sync returned %v", err)
			}
			d.Decide(nil)
		}
		// A file without entries in the journal continues.
		if _, err := g.WriteAt([]byte("other"), 0); err != nil {
			t.Fatal(err)
		}
		if err := g.SyncData(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		if err := s.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("it closed with %v", err)
		}
		again, r, err := Open(inner, small())
		if err != nil || r.Records == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got, err := vfs.ReadFile(again, root+"/f", 100); err != nil || !bytes.HasPrefix(got, []byte("sure")) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// The journal keeps acknowledged writes of a file that cannot be synced.
func TestUnsettledFileStaysInJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewCrashable()
		d := vfstest.NewFaulty(fsys)
		s := begun(t, d, small())
		f := made(t, s, root+"/f")
		journaled(t, s, f, "sure", 0)
		d.Decide(failing(vfs.OpSyncData, root+"/f", vfstest.Fault{Err: syscall.EIO}))
		time.Sleep(small().Age + time.Second)
		synctest.Wait()
		if err := s.Close(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("it closed with %v", err)
		}
		again, _, err := Open(fsys.CrashClone(vfs.Crash{}), small())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := vfs.ReadFile(again, root+"/f", 100); err != nil || string(got) != "sure" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestOldRecordsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewCrashable()
		o := small()
		o.Together = 2
		s := begun(t, fsys, o)
		f := made(t, s, root+"/f")
		s.o.Together = 1
		journaled(t, s, f, "one", 0)
		time.Sleep(o.Age + time.Second)
		synctest.Wait()
		if s.journal.live(f.(*handle).file) { //nolint:forcetypeassert // Create returns no other
			t.Fatal("an old write is not settled")
		}
		left := fsys.CrashClone(vfs.Crash{})
		if got, err := vfs.ReadFile(left, root+"/f", 100); err != nil || string(got) != "one" {
			t.Errorf("without the journal the file holds %q, %v", got, err)
		}
		if _, r, err := Open(left, o); err != nil || r.Records > 0 {
			t.Errorf("there is something to replay: %+v, %v", r, err)
		}
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// A file that is written again while its entries in the older half are settled stays
// live for the newer half.
func TestFileMayBeLiveInBothHalves(t *testing.T) {
	fsys := vfs.NewCrashable()
	gate, waiting := make(chan struct{}), make(chan struct{}, 1)
	d := vfstest.NewFaulty(fsys)
	d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind != vfs.OpOpen || op.Name != root+"/slow" {
			return vfstest.Fault{}
		}
		waiting <- struct{}{}
		return vfstest.Fault{Hang: gate}
	})
	s := begun(t, d, small())
	f, slow := made(t, s, root+"/f"), made(t, s, root+"/slow")
	journaled(t, s, slow, "s", 0)
	journaled(t, s, f, "one", 0)
	if err := s.journal.submit(&request{}); err != nil { // rotate
		t.Fatal(err)
	}
	<-waiting // the older half is being settled
	journaled(t, s, f, "two", 0)
	close(gate)
	s.journal.tasks.Wait()
	s.o.Together = 100
	journaled(t, s, f, "six", 0) // because it is live
	left := fsys.CrashClone(vfs.Crash{})
	again := mustOpen(t, left, small())
	if got, err := vfs.ReadFile(again, root+"/f", 100); err != nil || string(got) != "six" {
		t.Errorf("%q, %v", got, err)
	}
}

// The entries of a half count until their files are synced: even if the other half is
// full, it is not overwritten before that.
func TestHalfIsNotWrittenWhileBeingSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewCrashable()
		gate := make(chan struct{})
		d := vfstest.NewFaulty(fsys)
		d.Decide(failing(vfs.OpOpen, root+"/slow", vfstest.Fault{Hang: gate}))
		s := begun(t, d, small())
		f, slow := made(t, s, root+"/f"), made(t, s, root+"/slow")
		journaled(t, s, slow, "sure", 0)
		if err := s.journal.submit(&request{}); err != nil { // rotate
			t.Fatal(err)
		}
		journaled(t, s, f, "one", 0) // into the other half, while the file is slow
		written := make(chan error)
		go func() {
			err := s.journal.submit(&request{}) // back to the first half
			_, err2 := f.WriteAt([]byte("two"), 0)
			written <- errors.Join(err, err2, f.SyncData())
		}()
		synctest.Wait()
		left := fsys.CrashClone(vfs.Crash{})
		again := mustOpen(t, left, small())
		if got, err := vfs.ReadFile(again, root+"/slow", 100); err != nil || string(got) != "sure" {
			t.Errorf("the file that is not synced yet holds %q, %v", got, err)
		}
		close(gate)
		if err := errors.Join(<-written, f.Close(), slow.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := vfs.ReadFile(fsys, root+"/f", 100); err != nil || string(got) != "two" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestFilledBlocksAreNotJournaled(t *testing.T) {
	s := begun(t, vfs.NewMem(), small())
	f := made(t, s, root+"/f")
	if vfs.Deferred(f) {
		t.Error("a file of which the journal holds nothing is said to be deferred")
	}
	if _, err := vfs.FillAt(f, make([]byte, 1000), 500); err != nil {
		t.Fatal(err)
	}
	journaled(t, s, f, "one", 0)
	if !vfs.Deferred(f) {
		t.Error("a file that the journal holds is not said to be deferred")
	}
	if got := s.journal.tail; got != headBytes+alignment {
		t.Errorf("the journal holds %d bytes", got)
	}
}

// lost returns the content of a file after a power loss that removes all unsynced
// bytes, and a replay.
func lost(t *testing.T, fsys *vfs.Mem, name string) string {
	t.Helper()
	left := fsys.CrashClone(vfs.Crash{})
	mustOpen(t, left, small())
	got, err := vfs.ReadFile(left.CrashClone(vfs.Crash{}), name, 100)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// Writes between two syncs are copied into the journal from memory if each write begins at
// the end of the previous one, and from the file otherwise.
func TestNonContiguousWritesAreReplayed(t *testing.T) {
	type write struct {
		off int64
		p   string
	}
	for want, writes := range map[string][]write{
		"beginabcdef":   {{5, "abcd"}, {9, "ef"}},
		"begxybcdd":     {{5, "abcd"}, {3, "xyb"}, {6, "cd"}},
		"beginaxcd":     {{5, "abcd"}, {6, "x"}},
		"beginxbcd":     {{5, "abcd"}, {5, "x"}},
		"beginabcdefgh": {{9, "efgh"}, {5, "abcd"}},
		"xeginabcd":     {{5, "abcd"}, {0, "x"}},
	} {
		disk := vfs.NewCrashable()
		s := begun(t, disk, small())
		f := made(t, s, root+"/f")
		journaled(t, s, f, "begin", 0)
		for _, w := range writes[:len(writes)-1] {
			if _, err := f.WriteAt([]byte(w.p), w.off); err != nil {
				t.Fatal(err)
			}
		}
		last := writes[len(writes)-1]
		journaled(t, s, f, last.p, last.off)
		left := disk.CrashClone(vfs.Crash{})
		again := mustOpen(t, left, small())
		if got := raw(t, left, root+"/f"); got != want {
			t.Errorf("after %v the file holds %q, want %q", writes, got, want)
		}
		if err := errors.Join(again.Close(), f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplayUndoesNothing(t *testing.T) {
	const name = root + "/f"
	for about, test := range map[string]struct {
		do   func(t *testing.T, s *FS, f vfs.File)
		name string
		want string
	}{
		"nothing else happened": {func(*testing.T, *FS, vfs.File) {}, name, "abcdef"},
		"a truncation": {func(t *testing.T, _ *FS, f vfs.File) {
			_, err := f.WriteAt([]byte("x"), 0)
			if err := errors.Join(err, f.Truncate(2), f.SyncData()); err != nil {
				t.Fatal(err)
			}
		}, name, "xb"},
		"a direct sync": {func(t *testing.T, _ *FS, f vfs.File) {
			_, err := f.WriteAt([]byte("ABC"), 0)
			if err := errors.Join(err, f.Sync()); err != nil {
				t.Fatal(err)
			}
		}, name, "ABCdef"},
		"a new file": {func(t *testing.T, s *FS, f vfs.File) {
			err := f.Close()
			again, err2 := s.Create(name)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			_, err = again.WriteAt([]byte("new"), 0)
			if err := errors.Join(err, again.SyncData()); err != nil {
				t.Fatal(err)
			}
		}, name, "new"},
		"another name": {func(t *testing.T, s *FS, f vfs.File) {
			if err := errors.Join(f.Close(), s.Rename(name, name+"2"), s.SyncDir(root)); err != nil {
				t.Fatal(err)
			}
		}, name + "2", "abcdef"},
		"another directory of the name": {func(t *testing.T, s *FS, f vfs.File) {
			old, to := root+"/d/f", root+"/d"
			if err := errors.Join(f.Close(), vfs.MkdirAllSynced(s, to), vfs.MkdirAllSynced(s, root+"/new")); err != nil {
				t.Fatal(err)
			}
			g := made(t, s, old)
			journaled(t, s, g, "long ago", 0)
			other := made(t, s, root+"/new/f")
			_, err := other.WriteAt([]byte("now"), 0)
			if err := errors.Join(err, other.Sync(), other.Close(), g.Close(), s.SyncDir(root+"/new")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.RemoveAll(to), s.Rename(root+"/new", to), s.SyncDir(root)); err != nil {
				t.Fatal(err)
			}
		}, root + "/d/f", "now"},
		"another file of the name": {func(t *testing.T, s *FS, _ vfs.File) {
			other := made(t, s, root+"/g")
			_, err := other.WriteAt([]byte("other"), 0)
			if err := errors.Join(err, other.Sync(), other.Close(), s.Rename(root+"/g", name), s.SyncDir(root)); err != nil {
				t.Fatal(err)
			}
		}, name, "other"},
	} {
		t.Run(about, func(t *testing.T) {
			fsys := vfs.NewCrashable()
			s := begun(t, fsys, small())
			f := made(t, s, name)
			journaled(t, s, f, "abcdef", 0)
			test.do(t, s, f)
			if got := lost(t, fsys, test.name); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// What an earlier process wrote and did not sync lies in the system's cache: who opens
// the file syncs it, too.
// TestStartSyncsEachFileIfSyncAllFails has the call fail, or not be there: its error speaks of
// no one file.
func TestStartSyncsEachFileIfSyncAllFails(t *testing.T) {
	for name, failure := range map[string]error{"it fails": syscall.EIO, "there is none": errors.ErrUnsupported, "it works": nil} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashable()
			s := begun(t, disk, small())
			for _, name := range []string{root + "/a", root + "/b"} {
				f, err := s.Create(name)
				if err == nil {
					err = s.SyncDir(root)
				}
				if err == nil {
					_, err = f.WriteAt([]byte("abc"), 0)
				}
				if err := errors.Join(err, f.SyncData()); err != nil { // directly, and
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("def"), 3); err != nil {
					t.Fatal(err)
				}
				if err := f.SyncData(); err != nil { // through the journal
					t.Fatal(err)
				}
			}
			left := disk.CrashClone(vfs.Crash{})
			faulty := vfstest.NewFaulty(left)
			faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
				if op.Kind == vfs.OpSyncVolume {
					return vfstest.Fault{Err: failure}
				}
				return vfstest.Fault{}
			})
			o := small()
			o.SyncAll = true
			_, r, err := Open(faulty, o)
			if err != nil || r.Files != 2 || r.OnDisk != (failure == nil) || !errors.Is(r.NotAtOnce, failure) {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, name := range []string{root + "/a", root + "/b"} {
				if got := lost(t, left, name); got != "abcdef" {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
}

func TestDataOfEarlierProcessIsSynced(t *testing.T) {
	const name = root + "/f"
	fsys := vfs.NewCrashable()
	s := begun(t, fsys, small())
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.WriteAt([]byte("abc"), 0)
	}
	if err := errors.Join(err, f.Close(), fsys.SyncDir(root)); err != nil {
		t.Fatal(err)
	}
	g, err := s.OpenReadWrite(name)
	if err == nil {
		_, err = g.WriteAt([]byte("def"), 3)
	}
	if err := errors.Join(err, g.SyncData()); err != nil {
		t.Fatal(err)
	}
	if got := lost(t, fsys, name); got != "abcdef" {
		t.Errorf("%q", got)
	}
}
