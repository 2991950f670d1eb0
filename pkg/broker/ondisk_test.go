package broker

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killedNode is a node with three topics, on its disk after its process was killed. A power loss
// removes everything that was not synced. The next start syncs everything.
func killedNode(t *testing.T) (n *node, left *vfs.Mem) {
	t.Helper()
	disk := vfs.NewCrashable()
	n = &node{t: t, fs: disk, dir: t.TempDir(), change: func(o *Options) {
		o.TopicDefaults.Sync = meta.SyncPolicy{Interval: meta.MaxSyncInterval}
		o.Redo.SyncAll = true
	}}
	n.start()
	for _, topic := range []string{"a", "b", "c"} {
		n.put(topic, "one", "two")
	}
	left = disk.CrashClone(vfs.Crash{KeepPercent: 100})
	n.stop()
	return n, left
}

// TestDataLeftByKillIsDurableOnceServed loses power after a start that synced nothing by itself.
func TestDataLeftByKillIsDurableOnceServed(t *testing.T) {
	n, left := killedNode(t)
	var syncs atomic.Int64
	faulty := vfstest.NewFaulty(left)
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && strings.HasSuffix(op.Name, ".log") {
			syncs.Add(1)
		}
		return vfstest.Fault{}
	})
	n.fs = faulty
	n.start()
	if n := syncs.Load(); n != 0 {
		t.Errorf("%d logs were synced by themselves", n)
	}
	lost := left.CrashClone(vfs.Crash{})
	n.stop()
	n.fs = lost
	n.start()
	defer n.stop()
	for _, topic := range []string{"a", "b", "c"} {
		if got := n.subscribe(topic, "ch").take(2); got != "one two" {
			t.Errorf("%s: %q", topic, got)
		}
	}
}

// TestLogOpenedLaterIsSynced has a log that cannot be read at the start. An operator may
// have restored its files since.
func TestLogOpenedLaterIsSynced(t *testing.T) {
	n, left := killedNode(t)
	faulty := vfstest.NewFaulty(left)
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpReadDir && strings.HasPrefix(filepath.Base(filepath.Dir(op.Name)), "b.") {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	n.fs = faulty
	n.start()
	defer n.stop()
	var synced atomic.Bool
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && strings.HasSuffix(op.Name, ".log") {
			synced.Store(true)
		}
		return vfstest.Fault{}
	})
	if err := n.Host.Converge("b"); err != nil {
		t.Fatal(err)
	}
	if !synced.Load() {
		t.Error("what it held counts as durable")
	}
}
