package coord_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// textOf returns a text whose record takes size bytes, or one byte less if no text
// gives exactly size.
func textOf(size int) string {
	n := size
	for commitlog.RecordBytes(n) > size {
		n--
	}
	return strings.Repeat("x", n)
}

// TestEntriesAroundTheLimit: an entry of the largest size is committed on every
// replica, one byte more is refused, and in both cases the follower stays in
// sync.
func TestEntriesAroundTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := limit.Of(16 << 10)
		c := newSizedCluster(t, sizes, three...)
		term := c.elect("a", three...)
		for _, size := range []int{1, sizes.Group / 2, sizes.Entry - 1, sizes.Entry} {
			if err := within(30*time.Second, put(term, textOf(size))); err != nil {
				t.Errorf("an entry of %d bytes: %v", size, err)
			}
		}
		err := <-put(term, textOf(sizes.Entry+1))
		if !errors.Is(err, failure.BodyTooBig) || fate.Of(err) != fate.Refused {
			t.Errorf("an entry of %d bytes: %v", sizes.Entry+1, err)
		}
		if err := within(30*time.Second, put(term, "after it")); err != nil {
			t.Error(err)
		}
		if isr := c.isr(); len(isr) != 3 {
			t.Errorf("in sync: %v", isr)
		}
		c.close()
	})
}

// hang makes every sync of a node's disk hang until the returned function is called.
func (n *node) hang() (release func()) {
	stop := make(chan struct{})
	n.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData || op.Kind == vfs.OpSync {
			return vfstest.Fault{Hang: stop}
		}
		return vfstest.Fault{}
	})
	return func() {
		n.fs.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{} })
		close(stop)
	}
}

// TestLargestGroupReachesEveryReplica appends the largest group after as many
// bytes as may be unacknowledged: the transport accepts it, and so does the queue
// of a follower with a hanging disk.
func TestLargestGroupReachesEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := limit.Of(16 << 10)
		c := newSizedCluster(t, sizes, three...)
		term := c.elect("a", three...)
		if err := within(30*time.Second, put(term, "first")); err != nil {
			t.Fatal(err) // all replicas have it and have finished reconciling
		}
		synctest.Wait()
		var release []func()
		for _, id := range three[1:] {
			release = append(release, c.nodes[id].hang())
		}
		told := []<-chan error{put(term, "z")} // what the followers are at
		synctest.Wait()
		header := new(commitlog.Builder).Size()
		tiny, small := 49+header+8, 49+header+104 // puts of one batch with one record
		for sent := tiny; sent+small+tiny < sizes.Window; sent += small {
			told = append(told, put(term, strings.Repeat("x", 100)))
			synctest.Wait()
		}
		leader := c.nodes["a"].hang()
		told = append(told, put(term, "z")) // its sync hangs, and a group forms meanwhile
		synctest.Wait()
		for size := header; size+8 < sizes.Forming; size += commitlog.RecordBytes(1) {
			told = append(told, put(term, "y"))
		}
		told = append(told, put(term, textOf(sizes.Entry)))
		leader()
		synctest.Wait()
		for _, f := range term.Followers() {
			if f.State != "replicating" {
				t.Errorf("%s was refused something: %+v", f.Node, f)
			}
		}
		for _, release := range release {
			release()
		}
		synctest.Wait()
		for i, told := range told {
			if err := within(30*time.Second, told); err != nil {
				t.Errorf("entry %d: %v", i, err)
			}
		}
		if isr := c.isr(); len(isr) != 3 {
			t.Errorf("in sync: %v", isr)
		}
		c.close()
	})
}

// TestReplicaCatchesUpWithBatchesOfAnySize: a replica that was stopped gets the
// missed batches in puts that it accepts, whatever the sizes of the batches.
func TestReplicaCatchesUpWithBatchesOfAnySize(t *testing.T) {
	rnd := testrand.New(t)
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			sizes := limit.Of(16 << 10)
			c := newSizedCluster(t, sizes, "a", "b")
			term := c.elect("a", "a", "b")
			near := []int{1, sizes.Chunk, sizes.Window, sizes.Forming, sizes.Group / 2, sizes.Entry}
			for range 30 {
				size := near[rnd.IntN(len(near))] + rnd.IntN(5) - 2
				text := textOf(max(size, 1))
				err := within(30*time.Second, put(term, text))
				if want := commitlog.RecordBytes(len(text)) > sizes.Entry; errors.Is(err, failure.BodyTooBig) != want || err != nil && !want {
					t.Fatalf("an entry of %d bytes: %v", size, err)
				}
			}
			c.tell("c", c.current())
			for range 50 {
				time.Sleep(100 * time.Millisecond)
				term.Tick(time.Now(), time.Now())
			}
			if isr := c.isr(); len(isr) != 3 {
				t.Errorf("in sync: %v; followers %+v", isr, term.Followers())
			}
			c.close()
		})
	}
}
