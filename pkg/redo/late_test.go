package redo

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// deferred writes and syncs bytes that are not in the file yet.
func deferred(t *testing.T, f vfs.File, p string, off int64) {
	t.Helper()
	if _, err := vfs.WriteDeferred(f, []byte(p), off); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
}

// later returns a file of which the first three bytes are in place and the next six are only in
// the journal.
func later(t *testing.T, disk *vfs.Mem) (*FS, vfs.File) {
	t.Helper()
	o := small()
	o.FileBytes = 16 * latePiece // nothing is settled of itself
	s := begun(t, disk, o)
	f := made(t, s, root+"/f")
	journaled(t, s, f, "one", 0)
	deferred(t, f, "two", 3)
	deferred(t, f, "six", 6)
	return s, f
}

// raw returns what a file itself holds.
func raw(t *testing.T, disk vfs.FS, name string) string {
	t.Helper()
	p, err := vfs.ReadFile(disk, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestDeferredWriteSurvivesInTheJournal(t *testing.T) {
	disk := vfs.NewCrashable()
	s, f := later(t, disk)
	if got := raw(t, disk, root+"/f"); got != "one" {
		t.Fatalf("the file holds %q before anybody needs it", got)
	}
	for _, keep := range []int{0, 100} { // a loss of power, and a kill
		left := disk.CrashClone(vfs.Crash{KeepPercent: keep})
		if again := mustOpen(t, left, small()); raw(t, again, root+"/f") != "onetwosix" {
			t.Errorf("after the replay the file holds %q", raw(t, again, root+"/f"))
		}
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDeferredWriteIsVisibleToEveryReader(t *testing.T) {
	read := func(f vfs.File) error { return vfs.ReadFull(f, make([]byte, 1), 5) }
	for about, test := range map[string]struct {
		need func(*FS, vfs.File) error
		want string
	}{
		"a read of what is in place": {func(_ *FS, f vfs.File) error { return vfs.ReadFull(f, make([]byte, 3), 0) }, "one"},
		"a read":                     {func(_ *FS, f vfs.File) error { return read(f) }, "onetwosix"},
		"a read by another": {func(s *FS, _ vfs.File) error {
			other, err := s.Open(root + "/f")
			if err != nil {
				return err
			}
			return errors.Join(read(other), other.Close())
		}, "onetwosix"},
		"its size": {func(_ *FS, f vfs.File) error {
			_, err := f.Size()
			return err
		}, "onetwosix"},
		"another write": {func(_ *FS, f vfs.File) error {
			_, err := f.WriteAt([]byte("W"), 3)
			return err
		}, "oneWwosix"},
		"a deferred write elsewhere": {func(_ *FS, f vfs.File) error {
			_, err := vfs.WriteDeferred(f, []byte("end"), 12)
			return err
		}, "onetwosix\x00\x00\x00end"},
		"a truncation": {func(_ *FS, f vfs.File) error { return f.Truncate(7) }, "onetwos"},
		"a sync":       {func(_ *FS, f vfs.File) error { return f.Sync() }, "onetwosix"},
		"a direct sync": {func(_ *FS, f vfs.File) error {
			return f.SyncData() // nothing was written since the last one
		}, "onetwosix"},
		"a rename":        {func(s *FS, _ vfs.File) error { return s.Rename(root+"/f", root+"/g") }, "onetwosix"},
		"the end of use":  {func(_ *FS, f vfs.File) error { return f.Close() }, "onetwosix"},
		"a settled half":  {func(s *FS, _ vfs.File) error { return settled(s) }, "onetwosix"},
		"a large piece":   {func(_ *FS, f vfs.File) error { return large(f) }, "onetwosix" + strings.Repeat("x", latePiece-6)},
		"the node's end":  {func(s *FS, _ vfs.File) error { return s.Close() }, "onetwosix"},
		"another of name": {func(s *FS, _ vfs.File) error { return replaced(s) }, ""},
	} {
		disk := vfs.NewCrashable()
		s, f := later(t, disk)
		if err := test.need(s, f); err != nil {
			t.Errorf("%s: %v", about, err)
		}
		name := root + "/f"
		if about == "a rename" {
			name = root + "/g"
		}
		if got := raw(t, disk, name); got != test.want {
			t.Errorf("%s: the file holds %q, not %q", about, got, test.want)
		}
		_ = f.Close()
	}
}

// settled has the journal settle what it holds.
func settled(s *FS) error {
	err := s.journal.submit(&request{})
	s.journal.tasks.Wait()
	return err
}

// large defers as much as is kept.
func large(f vfs.File) error {
	p := bytes.Repeat([]byte("x"), 1024)
	for off := int64(9); off < latePiece+3; off += int64(len(p)) {
		p = p[:min(int64(len(p)), latePiece+3-off)]
		if _, err := vfs.WriteDeferred(f, p, off); err != nil {
			return err
		}
		if off+int64(len(p)) == latePiece+3 {
			break // the last is not synced: it is in the file because of its size
		}
		if err := f.SyncData(); err != nil {
			return err
		}
	}
	return nil
}

// replaced makes another file of the name.
func replaced(s *FS) error {
	other, err := s.Create(root + "/f")
	if err != nil {
		return err
	}
	return other.Close()
}

// What is only in the journal must not be lost where the file cannot be written.
func TestFailedDeferredWriteFailsJournal(t *testing.T) {
	disk := vfs.NewCrashable()
	faulty := vfstest.NewFaulty(disk)
	o := small()
	s := begun(t, faulty, o)
	f := made(t, s, root+"/f")
	journaled(t, s, f, "one", 0)
	deferred(t, f, "two", 3)
	faulty.Decide(failing(vfs.OpWrite, root+"/f", vfstest.Fault{Err: syscall.EIO}))
	// A reader must not take it for a bad sector, which it would report as damage.
	if err := vfs.ReadFull(f, make([]byte, 6), 0); err == nil || errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "redo journal") {
		t.Errorf("the read: %v", err)
	}
	s.journal.mu.Lock()
	if err := s.journal.failed; !errors.Is(err, syscall.EIO) {
		t.Errorf("the journal goes on: %v", err)
	}
	s.journal.mu.Unlock()
	left := disk.CrashClone(vfs.Crash{KeepPercent: 100})
	if got := raw(t, mustOpen(t, left, small()), root+"/f"); got != "onetwo" {
		t.Errorf("after the replay the file holds %q", got)
	}
}

// A write that completes a large piece, for which the disk has no room, is kept all the same:
// its caller must not believe that nothing was written.
func TestDeferredWriteWithoutSpaceIsKept(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	s := begun(t, faulty, small())
	f := made(t, s, root+"/f")
	journaled(t, s, f, "one", 0)
	deferred(t, f, "two", 3)
	faulty.Decide(failing(vfs.OpWrite, root+"/f", vfstest.Fault{Err: syscall.ENOSPC}))
	p := bytes.Repeat([]byte("x"), latePiece-3)
	n, err := vfs.WriteDeferred(f, p, 6)
	if n != len(p) || err == nil || vfs.LacksRoom(err) {
		t.Errorf("%d bytes written of %d: %v", n, len(p), err)
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if !errors.Is(s.journal.failed, syscall.ENOSPC) {
		t.Errorf("the journal goes on: %v", s.journal.failed)
	}
}

// What waits in memory is bounded: beyond that it is written at once.
func TestDeferredWritesAreBounded(t *testing.T) {
	s := begun(t, vfs.NewMem(), small())
	f, g := made(t, s, root+"/f"), made(t, s, root+"/g")
	for _, h := range []vfs.File{f, g} {
		journaled(t, s, h, "one", 0)
	}
	deferred(t, f, "two", 3)
	held := s.journal.lateBytes.Load()
	if held < 3 {
		t.Errorf("%d bytes are counted", held)
	}
	s.journal.lateBytes.Add(maxLate)
	deferred(t, g, "two", 3)
	if h := g.(*handle); h.file.isLate.Load() {
		t.Error("more waits than may")
	}
	s.journal.lateBytes.Add(-maxLate)
	if _, err := f.Size(); err != nil || s.journal.lateBytes.Load() != 0 {
		t.Errorf("%d bytes are counted when nothing waits, %v", s.journal.lateBytes.Load(), err)
	}
}

// Where a live file cannot be synced, the journal keeps what it holds of it: another sync may
// succeed though the system has dropped the writes.
func TestFailedSyncOfLiveFileFailsJournal(t *testing.T) {
	for what, sync := range map[vfs.OpKind]func(vfs.File) error{vfs.OpSyncData: vfs.File.SyncData, vfs.OpSync: vfs.File.Sync} {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		s := begun(t, faulty, small())
		f := made(t, s, root+"/f")
		journaled(t, s, f, "one", 0)
		if err := f.Truncate(2); err != nil { // the next sync is direct
			t.Fatal(err)
		}
		faulty.Decide(failing(what, root+"/f", vfstest.Fault{Err: syscall.EIO}))
		if err := sync(f); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: the sync: %v", what, err)
		}
		s.journal.mu.Lock()
		if !errors.Is(s.journal.failed, syscall.EIO) {
			t.Errorf("%v: the journal goes on: %v", what, s.journal.failed)
		}
		s.journal.mu.Unlock()
	}
}

// A file that is open is removed: what was kept of it is put in place while it has its name,
// since it may have to be opened again for that.
func TestDeferredWritesPrecedeRemoval(t *testing.T) {
	for what, remove := range map[string]func(vfs.FS) error{
		"itself":        func(s vfs.FS) error { return s.Remove(root + "/f") },
		"its directory": func(s vfs.FS) error { return s.RemoveAll(root) },
	} {
		s, f := later(t, vfs.NewCrashable())
		if err := remove(s); err != nil {
			t.Fatal(err)
		}
		if f.(*handle).file.isLate.Load() {
			t.Errorf("%s: something waits to be written to a file that is gone", what)
		}
	}
}

// A file that is open gets another name: what only the journal held of it is durable there.
func TestRenameKeepsADeferredWriteDurable(t *testing.T) {
	disk := vfs.NewCrashable()
	s, f := later(t, disk)
	if err := errors.Join(s.Rename(root+"/f", root+"/g"), s.SyncDir(root)); err != nil {
		t.Fatal(err)
	}
	left := disk.CrashClone(vfs.Crash{})
	if got := raw(t, mustOpen(t, left, small()), root+"/g"); got != "onetwosix" {
		t.Errorf("a loss of power leaves %q", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
