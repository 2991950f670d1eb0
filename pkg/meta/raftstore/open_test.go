package raftstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A node whose directory takes no more files says so, not that it lacks permissions.
func TestStartWithoutRoomForAFileNamesTheCause(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, snapshotsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	full := snapshotsUnusable(dir, errors.New("permissions test failed: open permTest: no space left on device"))
	if !errors.Is(full, syscall.ENOSPC) || !strings.Contains(full.Error(), "df -i") {
		t.Error(full)
	}
	// A link to nowhere in place of the file: root cannot create it either.
	if err := os.Symlink(filepath.Join(dir, "no", "where"), filepath.Join(dir, snapshotsDir, "permTest")); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir, NodeID: "n1", Bootstrap: true})
	if path, ok := errors.AsType[*fs.PathError](err); !ok || !strings.Contains(err.Error(), "cannot create and remove a file in") || !strings.HasSuffix(path.Path, "permTest") {
		t.Error(err)
	}
}
