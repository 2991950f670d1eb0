package coord

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The stamp of a batch and the moment that the leader pairs with it come from one
// reading of its clock. With two readings, all ages in its epoch were wrong by the
// time between them, and deferred messages were early by as much.
func TestTimestampAndMomentAreOneReading(t *testing.T) {
	start := time.Now()
	var passed atomic.Int64
	read := func() time.Time { return start.Add(time.Duration(passed.Add(int64(14 * time.Millisecond)))) }
	replica, err := OpenReplica(ReplicaOptions{
		FS: vfs.NewMem(), Dir: "p", Self: "n1", Now: read, Wall: time.Time.UnixNano,
		Failed: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	r := &rig{t: t, replica: replica}
	r.lead(1, meta.SyncAlways())
	taken := read()
	if err := <-r.put(); err != nil {
		t.Fatal(err)
	}
	if now := read(); replica.Ages().Leader(now) != now.UnixNano() {
		t.Errorf("its clock shows %v more than its clock", time.Duration(replica.Ages().Leader(now)-now.UnixNano()))
	}
	b, err := replica.Log().NewReader().Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	if b.Timestamp() < taken.UnixNano() {
		t.Errorf("stamped %v before it was handed in", taken.Sub(time.Unix(0, b.Timestamp())))
	}
}
