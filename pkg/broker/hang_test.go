package broker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// While a disk hangs, publishes are answered in time, also those to a partition without other replicas.
func TestPublishesAreAnsweredWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := vfstest.NewFaulty(vfs.NewMem())
		n := newNodeOn(t, faulty)
		n.put("t", "first")
		hang := make(chan struct{})
		faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData && strings.HasSuffix(op.Name, ".log") {
				return vfstest.Fault{Hang: hang}
			}
			return vfstest.Fault{}
		})
		told := make(chan error, 3)
		for range 2 {
			n.Router.Publish(t.Context(), publish.Request{
				Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}},
				Done: func(r topic.Receipt) { told <- r.Err },
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		if len(told) != 2 {
			t.Errorf("%d of 2 publishes are answered", len(told))
		} else {
			if err := <-told; !errors.Is(err, failure.Unconfirmed) || fate.Of(err) != fate.Uncertain {
				t.Errorf("what was written: %v", err)
			}
			if err := <-told; fate.Of(err) != fate.Refused {
				t.Errorf("what waited: %v", err)
			}
		}
		close(hang)
		time.Sleep(time.Second)
		if err := n.try("t", "y"); err != nil {
			t.Error(err)
		}
	})
}
