package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// refusals are operations that the file systems of some nodes refuse.
type refusals struct {
	of  func(vfs.Op) bool
	err error
	on  sync.Map // by node: true
}

// disk returns a node's file system.
func (r *refusals) disk(o *Options) vfs.FS {
	disk, self := vfstest.NewFaulty(o.FS), o.Self
	disk.Decide(func(_ int64, op vfs.Op) (f vfstest.Fault) {
		if on, _ := r.on.Load(self); on == true && r.of(op) {
			f.Err = &fs.PathError{Op: "write", Path: op.Name, Err: r.err}
		}
		return f
	})
	return disk
}

func (r *refusals) set(node meta.NodeID, on bool) { r.on.Store(node, on) }

// TestLeaderUnderQuotaTransfersLeadership: the file system of the leader reports free space and refuses writes. The
// leader refused all publishes for as long as that lasted, although the disks of the other replicas had room.
func TestLeaderUnderQuotaTransfersLeadership(t *testing.T) {
	exceeded := refusals{err: syscall.EDQUOT, of: func(op vfs.Op) bool { return op.Kind == vfs.OpPreallocate }}
	l := newLan(t, func(o *Options) {
		o.FS = exceeded.disk(o)
		o.DiskInterval = 20 * time.Millisecond
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	first := l.store.Topic("t").Partitions[0].Leader
	exceeded.set(first, true)
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
	exceeded.set(first, false)
	l.inSync("t", 0, 3)
	l.eventually("the node to have room", func() bool { return !l.at(first).Host.Disk.Low() })
}

// TestLeaderThatCannotCreateSegmentsTransfersLeadership: it refused every publish, was healthy, and logged nothing.
func TestLeaderThatCannotCreateSegmentsTransfersLeadership(t *testing.T) {
	denied := refusals{err: syscall.EACCES, of: func(op vfs.Op) bool { return op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, ".log") }}
	l := newLan(t, func(o *Options) {
		o.FS = denied.disk(o)
		o.Log.SegmentBytes = 64 << 10
	}, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	first := l.store.Topic("t").Partitions[0].Leader
	denied.set(first, true)
	body := string(make([]byte, 100<<10)) // needs another segment
	l.eventually("another leader", func() bool {
		_ = l.put("t", 0, body) // may be refused until then
		return l.store.Topic("t").Partitions[0].Leader != first
	})
	l.mustPut("t", 0, body)
	if r := l.at(first).Host.Reasons(time.Now()); len(r) == 0 || r[0].Code != "replica_failed" {
		t.Errorf("the node says %+v", r)
	}
	denied.set(first, false)
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, body)
}

// TestEmptiedTopicAcceptsMessages: what an undo of the change would redeliver kept a full topic full for a day.
func TestEmptiedTopicAcceptsMessages(t *testing.T) {
	n := newNodeWith(t, func(o *Options) { o.RetentionInterval = time.Hour })
	ctx := t.Context()
	if _, err := n.Directory.CreateTopic(ctx, "t", meta.TopicConfig{MaxBytes: meta.MinQuota}); err != nil {
		t.Fatal(err)
	}
	if err := n.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		return n.publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: make([]byte, 100<<10)}}}).Err
	}
	for put() == nil {
	}
	if err := put(); !errors.Is(err, failure.TopicFull) {
		t.Fatal(err)
	}
	if err := n.Contents.EmptyChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return put() == nil })
	part := n.Host.Lookup("t").Led(0).Part
	if part.Log().Start() == 0 {
		t.Error("nothing was deleted")
	}
	if u, err := n.Contents.UndoChannel(ctx, "t", "c"); err != nil {
		t.Errorf("undo: %+v, %v", u, err)
	}
}
