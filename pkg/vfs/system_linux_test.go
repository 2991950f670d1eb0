package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOutcomesOfRequests(t *testing.T) {
	r := &syncRequest{done: aioEvent{result: -int64(syscall.EIO)}}
	if err := r.outcome(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a failed request: %v", err)
	}
	r = &syncRequest{done: aioEvent{}}
	if err := r.outcome(); err != nil {
		t.Errorf("a request that did not fail: %v", err)
	}
}

// A name is made durable by a request, like data, but of another kind: the kernel need
// not write a directory for a sync of its data.
func TestSyncsMakeNamesDurableByRequests(t *testing.T) {
	s := requested(t, 1) // nothing may block
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	kind := nameSync
	kind.block = func(*os.File) error { return errors.New("one place too many is taken") }
	if err := s.sync(dir, kind); err != nil {
		t.Error(err)
	}
	if opcode := s.idle[0].control.opcode; opcode != aioSync {
		t.Errorf("the kernel was asked for operation %d, not %d", opcode, aioSync)
	}
	if err := (OS{Syncs: s}).SyncDir(dir.Name()); err != nil {
		t.Error(err)
	}
	if err := (OS{Syncs: s}).SyncDir(filepath.Join(dir.Name(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestReleasesOfTheKernel(t *testing.T) {
	for release, want := range map[string]bool{
		"5.8.0": true, "5.8": true, "5.10.0-8-amd64": true, "6.1.0-rc3+": true, "10.0": true,
		"5.7.19": false, "4.19.0-25-cloud": false, "4.9": false, "": false, "x": false,
	} {
		if got := atLeast(release, 5, 8); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
