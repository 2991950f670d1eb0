//go:build linux

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var refused []string
	fsys := OS{Files: NewFiles(2, func(name string) { refused = append(refused, name) })}
	path := func(name string) string { return filepath.Join(dir, name) }
	create := func(name string) File {
		t.Helper()
		f, err := fsys.Create(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := create("a"), create("b")
	for range 2 {
		if _, err := fsys.Create(path("c")); !OutOfFiles(err) {
			t.Errorf("a third file: %v", err)
		}
	}
	if _, err := os.Stat(path("c")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was refused is there: %v", err)
	}
	if len(refused) != 2 || refused[0] != path("c") {
		t.Errorf("refused: %v", refused)
	}
	temp := create("c" + TempSuffix) // does not count
	if r, err := fsys.Open(path("a")); err != nil || r.Close() != nil {
		t.Errorf("reading: %v", err)
	}
	if _, err := fsys.OpenReadWrite(path("nothing")); !OutOfFiles(err) {
		t.Errorf("another one to write: %v", err)
	}
	if err := errors.Join(a.Close(), temp.Close()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	for range 2 { // what could not be opened does not count
		if _, err := fsys.OpenReadWrite(path("nothing")); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	c := create("c")
	if _, err := fsys.Create(path("d")); !OutOfFiles(err) {
		t.Errorf("a third file again: %v", err)
	}
	if err := errors.Join(b.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if n := fsys.Files.open.Load(); n != 0 {
		t.Errorf("%d files count as open", n)
	}
}

// The spare descriptor is given up where there is no other, and kept again.
func TestADescriptorIsKeptBack(t *testing.T) {
	f := NewFiles(1, nil)
	for name, missing := range map[string]int{"there is one": 0, "there is none": 1, "another took it": 3} {
		calls := 0
		err := f.do(func() error {
			if calls++; calls <= missing {
				return &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
			}
			if missing > 0 && f.spare != nil {
				t.Errorf("%s: the spare descriptor is kept from who needs it", name)
			}
			return nil
		})
		if err != nil || calls != missing+1 || f.spare == nil {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	broken := errors.New("broken")
	if err := f.do(func() error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := (*Files)(nil).do(func() error { return syscall.ENFILE }); !OutOfFiles(err) {
		t.Error(err)
	}
}
