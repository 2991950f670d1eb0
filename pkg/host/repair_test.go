package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// someNodes are other nodes, which are never called.
type someNodes struct{ forward.Remote }

type deafObserver struct{ topic.Observer }

// TestDeliveriesResumeWhenRepairIsAbandoned has a consumer find damage, ask whether to wait for
// its repair, and suspend deliveries after the range was given up: no other code would resume them.
func TestDeliveriesResumeWhenRepairIsAbandoned(t *testing.T) {
	disk := vfs.NewMem()
	if err := vfs.MkdirAllSynced(disk, "p"); err != nil {
		t.Fatal(err)
	}
	log, _, err := commitlog.Open(disk, "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	part, err := topic.Open(topic.Options{
		FS: disk, Dir: "p", Log: log, Observer: deafObserver{},
		Arm: func(*topic.Channel) {}, PositionsDamaged: func(error, bool) {}, Damaged: func(*commitlog.CorruptionError) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := part.AddChannel("c", 1, topic.ChannelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wakes := 0
	k, err := c.Join(topic.ConsumerOptions{Timeout: time.Minute, Wake: func() { wakes++ }}, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &Topic{fs: disk}
	h.config.Store(&meta.Topic{Partitions: []meta.Partition{{Replicas: []meta.NodeID{"n1", "n2"}}}})
	m := &repairer{o: &Options{FS: disk, Calls: forward.Caller{Remote: someNodes{}}}}
	hp := &Held{sought: repair.NewSought()}
	hp.Led.Store(&Led{Part: part})
	hp.repairing.Store(true)
	damage := &commitlog.CorruptionError{From: 3, Next: 5}
	for _, given := range []bool{false, true} {
		if !m.waits(h, hp, damage) {
			t.Fatal("does not wait for what other replicas may hold")
		}
		if given {
			hp.sought.Due([]repair.Extent{repair.Of(damage)}, time.Unix(1000, 0))
			hp.sought.Overdue(time.Unix(1060, 0))
			m.resume(hp)
		}
		if _, err := k.Take(time.Now(), 1, nil); err != nil {
			t.Fatal(err)
		}
		part.Gate.Suspend()
		wakes = 0
		m.found(h, hp, damage)
		if (wakes > 0) != given {
			t.Errorf("given up %t: resumed %t", given, wakes > 0)
		}
	}
}
