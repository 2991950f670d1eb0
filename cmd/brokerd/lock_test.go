package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// The disk of a data directory is not mounted: the error names the link, and the directory that it means.
func TestLinkToNowhere(t *testing.T) {
	dir := t.TempDir()
	link, to := filepath.Join(dir, "link"), filepath.Join(dir, "unmounted", "data")
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
	_, err := lockDataDir(link, "n1", time.Now())
	if exitCode(err) != exitDisk || !strings.Contains(err.Error(), "link to "+to) || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("%v", err)
	}
}

// A data directory that is moved, and one that another process has made at its path, are lost.
func TestLostDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lock, err := lockDataDir(dir, "n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := lock.lost(); err != nil || !lock.fresh {
		t.Errorf("in place: %v, new: %v", err, lock.fresh)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := lock.lost(); exitCode(err) != exitDisk {
		t.Errorf("moved: %v", err)
	}
	other, err := lockDataDir(dir, "n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	if err := lock.lost(); exitCode(err) != exitDisk {
		t.Errorf("replaced: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	if err := lock.lost(); err != nil {
		t.Errorf("at the end of a link: %v", err)
	}
	lock.Close()
	if again, err := lockDataDir(dir, "n1", time.Now()); err != nil || again.fresh {
		t.Errorf("used before: %v", err)
	} else {
		again.Close()
	}
}

// Operators run recover as root. Every file must be the one's whose node is to run on it.
func TestRootRecoversForTheUserOfTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	const user, group = 1234, 2345
	dir := survivorDir(t, closedAddress)
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
