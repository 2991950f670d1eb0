package redo

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestSettleSyncsFiles settles three files through the volume, or one by one. Each must be durable
// without the journal before the journal's file counts as settled.
func TestSettleSyncsFiles(t *testing.T) {
	for _, test := range []struct {
		name       string
		from       int
		err        error
		hang       bool
		whole, one int64 // syncs of the volume and of single files
		takes      time.Duration
	}{
		{name: "many files, one sync", from: 3, whole: 1},
		{name: "few files", from: 4, one: 3},
		{name: "no volume", one: 3},
		{name: "volume sync fails", from: 3, err: syscall.EIO, whole: 1, one: 3},
		{name: "volume sync hangs", from: 3, hang: true, whole: 1, one: 3, takes: volumeAlone},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashable()
				faulty := vfstest.NewFaulty(disk)
				o := small()
				o.VolumeFrom = test.from
				s := begun(t, faulty, o)
				names := writeJournaled(t, s, 3)
				whole, one, hang := watchSyncs(faulty, test.err)
				if !test.hang {
					close(hang)
				}
				begin := time.Now()
				settle(t, s.journal)
				if took := time.Since(begin); took != test.takes {
					t.Errorf("settled after %v, want %v", took, test.takes)
				}
				if whole.Load() != test.whole || one.Load() != test.one {
					t.Errorf("%d volume syncs and %d file syncs, want %d and %d", whole.Load(), one.Load(), test.whole, test.one)
				}
				checkDurable(t, disk, names)
				if test.hang { // the next half does not wait for the volume again
					names = writeJournaled(t, s, 3)
					settle(t, s.journal)
					if whole.Load() != test.whole {
						t.Error("a second sync of the volume runs beside the first")
					}
					checkDurable(t, disk, names)
					close(hang)
					synctest.Wait() // the volume's sync ends, and the next half has its own
					names = writeJournaled(t, s, 3)
					settle(t, s.journal)
					if whole.Load() != test.whole+1 {
						t.Errorf("%d volume syncs, want one more than %d", whole.Load(), test.whole)
					}
					checkDurable(t, disk, names)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSlowVolumeSyncEndsFileSyncs: a sync of the volume that ends late makes the remaining syncs of
// single files needless, unless it has failed.
func TestSlowVolumeSyncEndsFileSyncs(t *testing.T) {
	for err, singles := range map[error]int64{nil: 1, syscall.EIO: 3} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewCrashable()
			faulty := vfstest.NewFaulty(disk)
			o := small()
			o.VolumeFrom = 1
			s := begun(t, faulty, o)
			names := writeJournaled(t, s, 3)
			hang := make(chan struct{})
			var one atomic.Int64
			faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
				switch {
				case op.Kind == vfs.OpSyncVolume:
					return vfstest.Fault{Err: err, Hang: hang}
				case op.Kind == vfs.OpSyncData && isFile(op.Name) && one.Add(1) == 1:
					close(hang)
					time.Sleep(time.Second) // of virtual time: the volume's sync ends meanwhile
				}
				return vfstest.Fault{}
			})
			settle(t, s.journal)
			if one.Load() != singles {
				t.Errorf("the volume's sync returned %v; %d files were synced singly, want %d", err, one.Load(), singles)
			}
			checkDurable(t, disk, names)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func isFile(name string) bool { return filepath.Dir(name) == root }

// watchSyncs counts the syncs of the volume, which wait for hang and fail with err, and of files
// outside the journal.
func watchSyncs(faulty *vfstest.Faulty, err error) (whole, one *atomic.Int64, hang chan struct{}) {
	whole, one, hang = new(atomic.Int64), new(atomic.Int64), make(chan struct{})
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		switch {
		case op.Kind == vfs.OpSyncVolume:
			whole.Add(1)
			return vfstest.Fault{Err: err, Hang: hang}
		case op.Kind == vfs.OpSyncData && isFile(op.Name):
			one.Add(1)
		}
		return vfstest.Fault{}
	})
	return whole, one, hang
}

// writeJournaled writes to so many files, and syncs them through the journal.
func writeJournaled(t *testing.T, s *FS, files int) (names []string) {
	t.Helper()
	for i := range files {
		name := fmt.Sprintf("%s/f%d", root, i)
		f, err := s.OpenReadWrite(name)
		if err != nil {
			f, err = s.Create(name)
		}
		if err == nil {
			err = s.SyncDir(root)
		}
		for _, p := range []string{"abc", "def"} { // the first sync is direct, the second is in the journal
			if err == nil {
				_, err = f.WriteAt([]byte(p), 0)
			}
			if err == nil {
				err = f.SyncData()
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// settle begins the other half of the journal, and waits until the current one is settled.
func settle(t *testing.T, j *journal) {
	t.Helper()
	if err := j.submit(&request{}); err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	settling := j.settling
	j.mu.Unlock()
	if settling != nil {
		<-settling
	}
	if j.failed != nil {
		t.Fatal(j.failed)
	}
}

// checkDurable checks what a loss of power leaves of files, without a replay.
func checkDurable(t *testing.T, disk *vfs.Mem, names []string) {
	t.Helper()
	for _, name := range names {
		got, err := vfs.ReadFile(disk.CrashClone(vfs.Crash{}), name, 10)
		if err != nil || string(got) != "def" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
