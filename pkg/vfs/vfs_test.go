package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// blockSize is the unit in which a crash keeps or loses unsynced data.
const blockSize = 4096

// systems are the implementations that must behave the same, each with an empty
// directory to work in.
func systems(t *testing.T) map[string]struct {
	fs  vfs.FS
	dir string
} {
	t.Helper()
	crashable, plain := vfs.NewCrashable(), vfs.NewMem()
	for _, m := range []*vfs.Mem{crashable, plain} {
		if err := m.MkdirAll("/d"); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]struct {
		fs  vfs.FS
		dir string
	}{
		"os":        {vfs.OS{}, t.TempDir()},
		"mem":       {plain, "/d"},
		"crashable": {crashable, "/d"},
		"faulty":    {vfstest.NewFaulty(vfs.OS{}), t.TempDir()},
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err, f.Close())
}

func TestImplementationsAgree(t *testing.T) {
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("files", func(t *testing.T) { testFiles(t, s.fs, s.dir) })
			t.Run("directories", func(t *testing.T) { testDirectories(t, s.fs, s.dir) })
			t.Run("locks", func(t *testing.T) { testLocks(t, s.fs, s.dir) })
		})
	}
}

func testFiles(t *testing.T, fsys vfs.FS, dir string) {
	name := filepath.Join(dir, "f")
	if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open of nothing: %v", err)
	}
	if _, err := fsys.OpenReadWrite(name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open for writing of nothing: %v", err)
	}
	f, err := fsys.Create(name)
	must(t, err, f.Preallocate(0, 10000))
	size, err := f.Size()
	if err != nil || size != 10000 {
		t.Fatalf("preallocated %d: %v", size, err)
	}
	must(t, f.Preallocate(0, 100))
	if size, err := f.Size(); err != nil || size != 10000 {
		t.Fatalf("preallocation made the file %d: %v", size, err)
	}
	_, err = f.WriteAt([]byte("hello"), 4094)
	must(t, err, f.Truncate(4097), f.Truncate(5000), f.SyncData(), f.Sync())
	got := make([]byte, 8)
	n, err := f.ReadAt(got, 4092)
	if n != 8 || err != nil || !bytes.Equal(got, []byte("\x00\x00hel\x00\x00\x00")) {
		t.Fatalf("read %d %q: %v", n, got, err)
	}
	if n, err := f.ReadAt(got, 4996); n != 4 || !errors.Is(err, io.EOF) {
		t.Fatalf("read over the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(got, 6000); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read behind the end: %d, %v", n, err)
	}
	ro, err := fsys.Open(name)
	must(t, err)
	if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("write to a file that was opened for reading")
	}
	must(t, ro.Close(), f.Close())
	info, err := fsys.Stat(name)
	if err != nil || info.Size() != 5000 || info.IsDir() || info.Name() != "f" || info.Mode().Perm() != 0o640 {
		t.Fatalf("stat %v: %v", info, err)
	}
	again, err := fsys.Create(name)
	must(t, err)
	if size, err := again.Size(); size != 0 || err != nil {
		t.Fatalf("created again with %d bytes: %v", size, err)
	}
	must(t, again.Close(), fsys.Remove(name))
}

func testDirectories(t *testing.T, fsys vfs.FS, dir string) {
	sub := filepath.Join(dir, "a", "b")
	must(t, vfs.MkdirAllSynced(fsys, sub), vfs.MkdirAllSynced(fsys, sub), fsys.MkdirAll(sub))
	info, err := fsys.Stat(sub)
	if err != nil || !info.IsDir() {
		t.Fatalf("stat %v: %v", info, err)
	}
	for _, n := range []string{"z", "y", "x"} {
		writeFile(t, fsys, filepath.Join(sub, n), n)
	}
	must(t, fsys.Rename(filepath.Join(sub, "z"), filepath.Join(sub, "x")), fsys.SyncDir(sub))
	names, err := fsys.ReadDir(sub)
	must(t, err)
	if diff := cmp.Diff([]string{"x", "y"}, names); diff != "" {
		t.Fatal(diff)
	}
	content, err := vfs.ReadFile(fsys, filepath.Join(sub, "x"), 10)
	if err != nil || string(content) != "z" {
		t.Fatalf("after the rename: %q, %v", content, err)
	}
	must(t, vfs.WriteFileSynced(fsys, filepath.Join(sub, "x"), []byte("whole")))
	if content, err := vfs.ReadFile(fsys, filepath.Join(sub, "x"), 10); err != nil || string(content) != "whole" {
		t.Fatalf("after the replacement: %q, %v", content, err)
	}
	if _, err := vfs.ReadFile(fsys, filepath.Join(sub, "x"), 4); err == nil {
		t.Fatal("read a file longer than the limit")
	}
	if err := fsys.Remove(sub); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatalf("remove of a full directory: %v", err)
	}
	if err := fsys.Remove(filepath.Join(sub, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("remove of nothing: %v", err)
	}
	if err := fsys.Rename(filepath.Join(sub, "none"), filepath.Join(sub, "n")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("rename of nothing: %v", err)
	}
	if _, err := fsys.Open(filepath.Join(sub, "x", "y")); !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("a file as a directory: %v", err)
	}
	must(t, fsys.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	if _, err := fsys.Stat(filepath.Join(dir, "c", "b", "y")); err != nil {
		t.Fatal(err)
	}
	must(t, fsys.RemoveAll(filepath.Join(dir, "c")), fsys.RemoveAll(filepath.Join(dir, "c")))
	if _, err := fsys.ReadDir(filepath.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("removed tree is there: %v", err)
	}
	if u, err := fsys.Usage(dir); err != nil || u.Total == 0 || u.Free > u.Total {
		t.Fatalf("usage %+v: %v", u, err)
	}
}

func testLocks(t *testing.T, fsys vfs.FS, dir string) {
	name := filepath.Join(dir, "lock")
	l, err := fsys.Lock(name)
	must(t, err)
	if _, err := fsys.Lock(name); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	must(t, l.Close())
	l, err = fsys.Lock(name)
	must(t, err, l.Close())
}

// TestCrashKeepsWhatWasSyncedAndAnyOfTheRest sees every outcome that a power
// cut may have, and none that it may not.
func TestCrashKeepsWhatWasSyncedAndAnyOfTheRest(t *testing.T) {
	m := vfs.NewCrashable()
	must(t, vfs.MkdirAllSynced(m, "/d"))
	f, err := m.Create("/d/kept")
	must(t, err)
	old, fresh := bytes.Repeat([]byte{1}, 2*blockSize), bytes.Repeat([]byte{2}, 2*blockSize)
	_, err = f.WriteAt(old, 0)
	must(t, err, f.SyncData(), m.SyncDir("/d"))
	_, err = f.WriteAt(fresh, 0)
	must(t, err)
	writeFile(t, m, "/d/new", "new")
	must(t, m.Rename("/d/new", "/d/renamed"))

	lost := m.CrashClone(vfs.Crash{})
	if names, _ := lost.ReadDir("/d"); !slices.Equal(names, []string{"kept"}) {
		t.Fatalf("names %v", names)
	}
	if p, err := vfs.ReadFile(lost, "/d/kept", 1<<20); err != nil || !bytes.Equal(p, old) {
		t.Fatalf("content is not what was synced: %v", err)
	}
	killed := m.CrashClone(vfs.Crash{KeepPercent: 100})
	if p, err := vfs.ReadFile(killed, "/d/kept", 1<<20); err != nil || !bytes.Equal(p, fresh) {
		t.Fatalf("content is not what was written: %v", err)
	}
	if p, err := vfs.ReadFile(killed, "/d/renamed", 1<<20); err != nil || string(p) != "new" {
		t.Fatalf("renamed file holds %q: %v", p, err)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 500 {
		c := m.CrashClone(vfs.Crash{Rand: rng, KeepPercent: 50, TornPercent: 50})
		p, err := vfs.ReadFile(c, "/d/kept", 1<<20)
		must(t, err)
		kind := ""
		for b := range 2 {
			part := p[b*blockSize:][:blockSize]
			switch bytes.Count(part, []byte{2}) {
			case 0:
				kind += "old "
			case blockSize:
				kind += "new "
			default:
				kind += "torn "
			}
		}
		seen[kind]++
		names, err := c.ReadDir("/d")
		must(t, err)
		for _, n := range names {
			seen["name "+n]++
		}
	}
	for _, want := range []string{"old old ", "old new ", "new old ", "new new ", "torn torn ", "name new", "name renamed"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %q in %v", want, seen)
		}
	}
	if seen["name kept"] != 500 {
		t.Errorf("a synced name was lost: %v", seen)
	}
}

// TestFileSystemAndItsCloneDoNotShareChanges writes to both in turn, before and after
// syncs, and clones the clone.
func TestFileSystemAndItsCloneDoNotShareChanges(t *testing.T) {
	const blocks = 4
	rng := rand.New(rand.NewPCG(3, 4))
	disks := []*vfs.Mem{vfs.NewCrashable()}
	f, err := disks[0].Create("f")
	must(t, err)
	_, err = f.WriteAt(make([]byte, blocks*blockSize-100), 0)
	must(t, err, f.SyncData(), disks[0].SyncDir("."))
	want := [][]byte{make([]byte, blocks*blockSize-100)}
	for step := range 500 {
		i := rng.IntN(len(disks))
		f, err := disks[i].OpenReadWrite("f")
		must(t, err)
		switch k := rng.IntN(10); {
		case k == 0 && len(disks) < 6:
			disks, want = append(disks, disks[i].CrashClone(vfs.Crash{KeepPercent: 100})), append(want, bytes.Clone(want[i]))
		case k < 3:
			must(t, f.SyncData())
		case k == 3:
			must(t, f.Truncate(int64(len(want[i])/2)), f.Truncate(int64(len(want[i]))))
			clear(want[i][len(want[i])/2:])
		default:
			at := rng.IntN(len(want[i]) - 10)
			n, err := f.WriteAt(bytes.Repeat([]byte{byte(step)}, 10), int64(at))
			must(t, err)
			copy(want[i][at:], bytes.Repeat([]byte{byte(step)}, n))
		}
		for i, m := range disks {
			if p, err := vfs.ReadFile(m, "f", 1<<20); err != nil || !bytes.Equal(p, want[i]) {
				t.Fatalf("step %d: disk %d does not hold what was written to it: %v", step, i, err)
			}
		}
	}
}

func TestCrashMayUndoATruncation(t *testing.T) {
	m := vfs.NewCrashable()
	must(t, vfs.MkdirAllSynced(m, "/d"))
	f, err := m.Create("/d/f")
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{7}, 3*blockSize), 0)
	must(t, err, f.SyncData(), m.SyncDir("/d"), f.Truncate(100), f.Truncate(200))
	p, err := vfs.ReadFile(m.CrashClone(vfs.Crash{}), "/d/f", 1<<20)
	if err != nil || !bytes.Equal(p, bytes.Repeat([]byte{7}, 3*blockSize)) {
		t.Fatalf("%d bytes: %v", len(p), err)
	}
	must(t, f.SyncData())
	p, err = vfs.ReadFile(m.CrashClone(vfs.Crash{}), "/d/f", 1<<20)
	if err != nil || len(p) != 200 || p[99] != 7 || p[100] != 0 {
		t.Fatalf("%d bytes: %v", len(p), err)
	}
}

func TestReplacingAFileIsAllOrNothing(t *testing.T) {
	m := vfs.NewCrashable()
	must(t, vfs.MkdirAllSynced(m, "/d"), vfs.WriteFileSynced(m, "/d/f", []byte("old")))
	rng := rand.New(rand.NewPCG(3, 4))
	m.Observe(func(op vfs.Op) {
		for keep := 0; keep <= 100; keep += 25 {
			c := m.CrashClone(vfs.Crash{Rand: rng, KeepPercent: keep, TornPercent: 50})
			if p, err := vfs.ReadFile(c, "/d/f", 10); err != nil || string(p) != "old" && string(p) != "new" {
				t.Fatalf("after %v: %q, %v", op, p, err)
			}
		}
	})
	must(t, vfs.WriteFileSynced(m, "/d/f", []byte("new")))
	if p, err := vfs.ReadFile(m.CrashClone(vfs.Crash{}), "/d/f", 10); err != nil || string(p) != "new" {
		t.Fatalf("%q: %v", p, err)
	}
}

func TestMarkOutlivesThePower(t *testing.T) {
	m := vfs.NewCrashable()
	must(t, vfs.MkdirAllSynced(m, "/d"), vfs.MarkSynced(m, "/d/mark"))
	if info, err := m.CrashClone(vfs.Crash{}).Stat("/d/mark"); err != nil || info.Size() != 0 {
		t.Fatalf("%v, %v", info, err)
	}
	must(t, vfs.MarkSynced(m, "/d/mark")) // again
	if err := vfs.MarkSynced(m, "/none/mark"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a mark in no directory: %v", err)
	}
}

func TestFaultsAreInjectedWhereAskedFor(t *testing.T) {
	inner := vfs.NewMem()
	f := vfstest.NewFaulty(inner)
	must(t, f.MkdirAll("/d"))
	file, err := f.Create("/d/f")
	must(t, err)
	errBroken := errors.New("broken")
	release := make(chan struct{})
	f.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		switch {
		case op.Kind == vfs.OpWrite:
			return vfstest.Fault{Err: syscall.ENOSPC, Short: 3}
		case op.Kind == vfs.OpSyncData && op.Name == "/d/f":
			return vfstest.Fault{Err: errBroken, Hang: release}
		}
		return vfstest.Fault{}
	})
	if n, err := file.WriteAt([]byte("hello"), 0); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("short write: %d, %v", n, err)
	}
	done := make(chan error)
	go func() { done <- file.SyncData() }()
	select {
	case err := <-done:
		t.Fatalf("sync did not hang: %v", err)
	default:
	}
	close(release)
	if err := <-done; !errors.Is(err, errBroken) {
		t.Fatalf("sync: %v", err)
	}
	f.Decide(nil)
	if p, err := vfs.ReadFile(f, "/d/f", 10); err != nil || string(p) != "hel" {
		t.Fatalf("%q: %v", p, err)
	}
	if f.Count() != 6 {
		t.Fatalf("%d operations", f.Count())
	}
}
