package broker

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// spot names a partition.
type spot struct {
	Topic     string
	Partition int
}

// TestRolesOfPartitionsAreIndependent: the disk hangs while a node takes its role
// in one partition. Then the node is elected in another topic, and in another
// partition of the same topic, and leads both.
func TestRolesOfPartitionsAreIndependent(t *testing.T) {
	hangs := make(chan struct{})
	var stuck, met atomic.Bool
	l := newLan(t, func(o *Options) {
		if o.Self != "n2" {
			return
		}
		slow := vfstest.NewFaulty(o.FS)
		slow.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if stuck.Load() && strings.Contains(op.Name, "/one.") && strings.Contains(op.Name, "/0/") {
				met.Store(true)
				<-hangs
			}
			return vfstest.Fault{}
		})
		o.FS = slow
	}, "n1", "n2", "n3")
	ids := []meta.NodeID{"n1", "n2", "n3"}
	cfg := meta.TopicConfig{Partitions: 2, Replicas: 3}.WithDefaults(3, false)
	if _, err := l.store.Propose(t.Context(), meta.CreateTopic{Name: "one", Config: cfg, Assignment: [][]meta.NodeID{ids, ids}}); err != nil {
		t.Fatal(err)
	}
	l.create("other", ids...)
	for _, p := range []spot{{"one", 0}, {"one", 1}, {"other", 0}} {
		l.inSync(p.Topic, p.Partition, 3)
		l.mustPut(p.Topic, p.Partition, "a")
	}
	release := sync.OnceFunc(func() { close(hangs) })
	t.Cleanup(release) // before the brokers are closed
	stuck.Store(true)
	l.elect("one", 0, "n2")
	l.eventually("the disk to hang", met.Load)
	for _, p := range []spot{{"other", 0}, {"one", 1}} {
		l.elect(p.Topic, p.Partition, "n2")
		l.eventually("n2 to lead", func() bool { return l.at("n2").Host.Lookup(p.Topic).Led(p.Partition) != nil })
		l.mustPut(p.Topic, p.Partition, "b")
	}
	l.eventually("health to name the role that hangs", func() bool { return l.at("n2").Host.Stalls.Counts(time.Now())["role_change_stalled"] == 1 })
	stuck.Store(false)
	release()
	l.mustPut("one", 0, "b")
}
