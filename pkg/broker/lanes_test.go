package broker

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestRunsOfOneLaneComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here, most, runs atomic.Int32
		all := newLanes(func(key string) (int32, error) {
			if key == "b" {
				return 0, nil
			}
			most.Store(max(most.Load(), here.Add(1)))
			time.Sleep(time.Second)
			here.Add(-1)
			return runs.Add(1), nil
		})
		began := time.Now()
		first := all.ask("a")
		synctest.Wait()
		second, third := all.ask("a"), all.ask("a") // the run under way may have read what was before
		if _, err := all.ask("b").wait(); err != nil || time.Since(began) != 0 {
			t.Errorf("another lane's run ended after %v: %v", time.Since(began), err)
		}
		for f, want := range map[*outcome[int32]]int32{first: 1, second: 2, third: 2} {
			if n, err := f.wait(); n != want || err != nil {
				t.Errorf("got the result of run %d, %v; want that of run %d", n, err, want)
			}
		}
		all.ask("a")
		all.close()
		if took := time.Since(began); took != 3*time.Second || most.Load() != 1 || runs.Load() != 3 {
			t.Errorf("%d runs took %v, %d at a time", runs.Load(), took, most.Load())
		}
		if _, err := all.ask("a").wait(); !errors.Is(err, ErrExiting) {
			t.Errorf("a run after the end: %v", err)
		}
		if len(all.busy) != 0 {
			t.Errorf("%d lanes are remembered", len(all.busy))
		}
	})
}

// TestNoRoleWaitsForAnotherPartitions: the disk does not answer while a node takes
// its role in one partition. Then it is elected in another topic, and in another
// partition of the same topic, and leads both.
func TestNoRoleWaitsForAnotherPartitions(t *testing.T) {
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
	for _, p := range []partitionAt{{"one", 0}, {"one", 1}, {"other", 0}} {
		l.inSync(p.Topic, p.Partition, 3)
		l.mustPut(p.Topic, p.Partition, "a")
	}
	release := sync.OnceFunc(func() { close(hangs) })
	t.Cleanup(release) // before the brokers are closed
	stuck.Store(true)
	l.elect("one", 0, "n2")
	l.eventually("the disk to hang", met.Load)
	for _, p := range []partitionAt{{"other", 0}, {"one", 1}} {
		l.elect(p.Topic, p.Partition, "n2")
		l.eventually("n2 to lead", func() bool { return l.at("n2").lookup(p.Topic).leds(p.Partition) != nil })
		l.mustPut(p.Topic, p.Partition, "b")
	}
	l.eventually("health to name the role that hangs", func() bool { return l.at("n2").Stalls()["role_change_stalled"] == 1 })
	stuck.Store(false)
	release()
	l.mustPut("one", 0, "b")
}
