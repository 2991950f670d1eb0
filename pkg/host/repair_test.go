package host

import (
	"log/slog"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// someNodes are other nodes, which are never called.
type someNodes struct{ forward.Remote }

type deafObserver struct{ topic.Observer }

// newRepair returns a repairer, and an empty replica whose repair is in progress.
func newRepair(t testing.TB) (*repairer, *Topic, *Held) {
	t.Helper()
	disk := vfs.NewMem()
	if err := vfs.MkdirAllSynced(disk, "p"); err != nil {
		t.Fatal(err)
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: disk, Dir: "p", Self: "n1", Now: time.Now, Log: commitlog.Options{FillBytes: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := replica.Close(); err != nil {
			t.Error(err)
		}
	})
	hp := &Held{dir: "p", Replica: replica, sought: repair.NewSought()}
	hp.repairing.Store(true)
	return &repairer{
		o: &Options{FS: disk, Calls: forward.Caller{Remote: someNodes{}}}, damage: repair.NewKnown(slog.New(slog.DiscardHandler)),
	}, &Topic{fs: disk}, hp
}

// TestDeliveriesResumeWhenRepairIsAbandoned has a consumer find damage, ask whether to wait for
// its repair, and suspend deliveries after the range was given up: no other code would resume them.
func TestDeliveriesResumeWhenRepairIsAbandoned(t *testing.T) {
	m, h, hp := newRepair(t)
	disk, log := h.fs, hp.Replica.Log()
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
	h.config.Store(&meta.Topic{Partitions: []meta.Partition{{Replicas: []meta.NodeID{"n1", "n2"}}}})
	hp.Led.Store(&Led{Part: part})
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

// TestRepairAsksForNewDamageAtOnce finds further damage while a repair is in progress, which may be in a long pause.
func TestRepairAsksForNewDamageAtOnce(t *testing.T) {
	m, h, hp := newRepair(t)
	for _, fresh := range []bool{true, false} {
		m.damage.Report("t", 0, &commitlog.CorruptionError{Path: "p/1.log", From: 3, Next: 5})
		m.start(h, hp)
		select {
		case <-hp.sought.More():
			if !fresh {
				t.Error("known damage is asked for without a pause")
			}
		default:
			if fresh {
				t.Error("new damage waits for the end of the pause")
			}
		}
	}
}
