package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Operators run recover as root. Every file must be the one's whose node is to run on it.
func TestRootRecoversForTheUserOfTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	const user, group = 1234, 2345
	dir := survivorDir(t, closedAddress(t))
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the other user passes through
		t.Fatal(err)
	}
	all := func(f func(path string, stat *syscall.Stat_t)) {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				f(path, info.Sys().(*syscall.Stat_t))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	all(func(path string, _ *syscall.Stat_t) {
		if err := os.Chown(path, user, group); err != nil {
			t.Fatal(err)
		}
	})
	if code, _, text := brokerdSays(t, "recover", "--only-survivor", "--data-dir", dir, "--yes-lose-what-is-missing"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, text)
	}
	all(func(path string, stat *syscall.Stat_t) {
		if stat.Uid != user || stat.Gid != group {
			t.Errorf("%s belongs to user %d, group %d", path, stat.Uid, stat.Gid)
		}
	})
	if os.Geteuid() != 0 || os.Getegid() != 0 {
		t.Errorf("the process stays user %d, group %d", os.Geteuid(), os.Getegid())
	}
}
