package broker

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestLeaderUnderQuotaTransfersLeadership: the file system of the leader reports free space and refuses writes. The
// leader refused all publishes for as long as that lasted, although the disks of the other replicas had room.
func TestLeaderUnderQuotaTransfersLeadership(t *testing.T) {
	var mu sync.Mutex // guards exceeded
	exceeded := map[meta.NodeID]*atomic.Bool{}
	l := newLan(t, func(o *Options) {
		mu.Lock()
		defer mu.Unlock()
		on := &atomic.Bool{}
		exceeded[o.Self] = on
		disk := vfstest.NewFaulty(o.FS)
		disk.Decide(func(_ int64, op vfs.Op) (f vfstest.Fault) {
			if on.Load() && op.Kind == vfs.OpPreallocate {
				f.Err = &fs.PathError{Op: "fallocate", Path: op.Name, Err: syscall.EDQUOT}
			}
			return f
		})
		o.FS, o.DiskInterval = disk, 20*time.Millisecond
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	first := l.store.Topic("t").Partitions[0].Leader
	exceeded[first].Store(true)
	body := make([]byte, 100<<10)
	l.eventually("another leader", func() bool {
		_ = l.put("t", 0, string(body)) // may be refused until then
		return l.store.Topic("t").Partitions[0].Leader != first
	})
	for i := range 3 {
		l.mustPut("t", 0, fmt.Sprint(i))
	}
	l.eventually("the node to be known as full", func() bool { return l.store.Node(first).DiskFull })
	if r := l.at(first).Host.NotReady(time.Now()); len(r) != 1 || r[0].Code != "disk_full" {
		t.Errorf("the node says %+v", r)
	}
	exceeded[first].Store(false)
	l.inSync("t", 0, 3)
	l.eventually("the node to have room", func() bool { return !l.at(first).Host.Disk.Low() })
}

// TestLeaderThatCannotCreateSegmentsTransfersLeadership: it refused every publish, was healthy, and logged nothing.
func TestLeaderThatCannotCreateSegmentsTransfersLeadership(t *testing.T) {
	var mu sync.Mutex // guards denied
	denied := map[meta.NodeID]*atomic.Bool{}
	l := newLan(t, func(o *Options) {
		mu.Lock()
		defer mu.Unlock()
		on := &atomic.Bool{}
		denied[o.Self] = on
		disk := vfstest.NewFaulty(o.FS)
		disk.Decide(func(_ int64, op vfs.Op) (f vfstest.Fault) {
			if on.Load() && op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, ".log") {
				f.Err = &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EACCES}
			}
			return f
		})
		o.FS, o.Log.SegmentBytes = disk, 64<<10
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	first := l.store.Topic("t").Partitions[0].Leader
	denied[first].Store(true)
	body := string(make([]byte, 100<<10)) // needs another segment
	l.eventually("another leader", func() bool {
		_ = l.put("t", 0, body) // may be refused until then
		return l.store.Topic("t").Partitions[0].Leader != first
	})
	l.mustPut("t", 0, body)
	if r := l.at(first).Host.Reasons(time.Now()); len(r) == 0 || r[0].Code != "replica_failed" {
		t.Errorf("the node says %+v", r)
	}
	denied[first].Store(false)
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, body)
}
