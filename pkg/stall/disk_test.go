package stall

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// TestDiskIsObserved: one operation that takes long counts, and not many short ones.
func TestDiskIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		disk := hook.NewWatch(faulty)
		f, err := disk.Create("f")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var longest time.Duration
		var at vfs.Op
		over := make(chan struct{})
		go func() {
			defer close(over)
			WatchDisk(ctx, disk, func(op vfs.Op, unanswered time.Duration) bool {
				if unanswered > longest {
					longest, at = unanswered, op
				}
				return unanswered < 5*time.Second
			})
		}()
		hold := func(d time.Duration) {
			hang := make(chan struct{})
			faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Hang: hang} })
			synced := make(chan error)
			go func() { synced <- f.Sync() }()
			time.Sleep(d)
			close(hang)
			if err := <-synced; err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			hold(2 * time.Second)
		}
		synctest.Wait()
		if longest < 2*time.Second-2*DiskCheck || longest > 2*time.Second {
			t.Errorf("after operations of 2 s: %v", longest)
		}
		hold(6 * time.Second)
		<-over
		if longest < 5*time.Second || longest > 5*time.Second+DiskCheck || at.Kind != vfs.OpSync || at.Name != "f" {
			t.Errorf("%v of %v", longest, at)
		}
	})
}

// TestSyncOfVolumeIsNoStall: it waits for what other programs have written.
func TestSyncOfVolumeIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		hang := make(chan struct{})
		disk := hook.NewWatch(faulty)
		volume, err := vfs.OpenVolume(disk, ".")
		if err != nil {
			t.Skip("no volumes in memory")
		}
		faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Hang: hang} })
		synced := make(chan error)
		go func() { synced <- volume.Sync() }()
		synctest.Wait()
		if _, op, busy := disk.Oldest(); busy {
			t.Errorf("%v", op)
		}
		close(hang)
		if err := <-synced; err != nil {
			t.Error(err)
		}
	})
}

func TestStoppedProcessReportsNoDiskStall(t *testing.T) {
	var s sameOperation
	s.check(7, true)
	if got := s.check(7, true); got != DiskCheck { // an hour may have passed between the two
		t.Error(got)
	}
}
