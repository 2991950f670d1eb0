package diskspace

import (
	"bytes"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// quota is a disk with free space on which the process may not use more than it has.
func quota(t *testing.T) (disk *vfstest.Faulty, s *Space, said *bytes.Buffer) {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	disk, said = vfstest.NewFaulty(mem), &bytes.Buffer{}
	exceeded(disk)
	return disk, New(roomy{disk}, "data", 1<<20, slog.New(slog.NewTextHandler(said, nil))), said
}

// exceeded makes a disk refuse everything that takes space.
func exceeded(disk *vfstest.Faulty) {
	disk.Decide(func(_ int64, op vfs.Op) (f vfstest.Fault) {
		if op.Kind == vfs.OpPreallocate {
			f.Err = &fs.PathError{Op: "fallocate", Path: op.Name, Err: syscall.EDQUOT}
		}
		return f
	})
}

type roomy struct{ vfs.FS }

func (roomy) Usage(string) (vfs.Usage, error) { return vfs.Usage{Total: 1 << 40, Free: 1 << 39}, nil }

// A quota is not in the figures of a file system. Publishes were refused for as long as it lasted, and the node was
// healthy and kept its leaderships.
func TestQuotaMakesTheDiskLow(t *testing.T) {
	disk, s, said := quota(t)
	if s.Look(); s.Low() || s.Shortage() != "" {
		t.Errorf("low before a write was refused: %q", s.Shortage())
	}
	s.Deny(&fs.PathError{Op: "write", Path: "/data/secret", Err: syscall.EDQUOT})
	<-s.Denied()
	for range 3 {
		if r := s.Look(); r != Low || !s.Low() || s.Reserve(1) || s.Brimful() {
			t.Errorf("level %d, low %v, brimful %v", r, s.Low(), s.Brimful())
		}
	}
	if why := s.Shortage(); !strings.Contains(why, "disk quota exceeded") || strings.Contains(why, "secret") {
		t.Errorf("shortage: %q", why)
	}
	if n := strings.Count(said.String(), "as a quota does"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, said.String())
	}
	disk.Decide(nil)
	if r := s.Look(); r != Ample || s.Low() || !s.Reserve(1) || s.Shortage() != "" {
		t.Errorf("level %d once there is room, %q", r, s.Shortage())
	}
	if names, err := disk.ReadDir("data"); err != nil || len(names) != 0 {
		t.Errorf("trials left %v, %v", names, err)
	}
}

// A write may be refused for a moment, for example while another process fills the disk.
func TestShortRefusalDoesNotMakeTheDiskLow(t *testing.T) {
	disk, s, said := quota(t)
	s.Deny(syscall.ENOSPC)
	disk.Decide(nil)
	if r := s.Look(); r != Ample || s.Low() || said.Len() > 0 {
		t.Errorf("level %d, low %v: %s", r, s.Low(), said.String())
	}
}

// Without a reserve the measured disk is never low, and a quota counts nevertheless.
func TestQuotaCountsWithoutReserve(t *testing.T) {
	disk, _, said := quota(t)
	s := New(roomy{disk}, "data", 0, slog.New(slog.NewTextHandler(said, nil)))
	s.Deny(syscall.EDQUOT)
	if s.Look(); !s.Low() || s.Brimful() {
		t.Errorf("low %v, brimful %v", s.Low(), s.Brimful())
	}
	disk.Decide(nil)
	if s.Look(); s.Low() {
		t.Error("low once there is room")
	}
}

// TestDenialsAreNotTriedWithoutPause: a trial may succeed where the system refuses writes, on another file system for
// example. The node then made trials as fast as its disk allowed.
func TestDenialsAreNotTriedWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s, _ := quota(t)
		disk.Decide(nil) // trials succeed
		trials := func() (n int) {
			for range 100 {
				s.Deny(syscall.ENOSPC)
				select {
				case <-s.Denied():
					s.Look()
					n++
				default:
				}
			}
			return n
		}
		if n := trials(); n != 1 {
			t.Errorf("%d trials at once", n)
		}
		time.Sleep(leastBetween) // of virtual time
		if n := trials(); n != 1 {
			t.Errorf("%d trials after a pause", n)
		}
	})
}

// TestTrialOfAKilledProcessIsRemoved: it may take a part of the reserve for good.
func TestTrialOfAKilledProcessIsRemoved(t *testing.T) {
	fs := vfs.NewMem()
	if err := vfs.WriteFileSynced(fs, trialPath("."), make([]byte, leastTrial)); err != nil {
		t.Fatal(err)
	}
	New(fs, ".", 1<<30, slog.New(slog.DiscardHandler)).Look()
	if _, err := fs.Stat(trialPath(".")); err == nil {
		t.Error("it is still there")
	}
}
