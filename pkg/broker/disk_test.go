package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// disks are the disks of a lan, each with its own free space.
type disks struct {
	mu  sync.Mutex // guards all
	all map[meta.NodeID]*small
}

func (d *disks) options(o *Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &small{FS: o.FS, free: 1 << 40}
	d.all[o.Self] = s
	o.FS, o.DiskInterval = s, 20*time.Millisecond
}

func (d *disks) set(id meta.NodeID, free uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[id].set(free)
}

// TestLeaderWithFullDiskTransfersLeadership: no publish fails meanwhile. If no in-sync
// replica has room, the leader stays and refuses publishes. It recovers without an
// operator.
func TestLeaderWithFullDiskTransfersLeadership(t *testing.T) {
	d := &disks{all: map[meta.NodeID]*small{}}
	l := newLan(t, d.options, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	leader := func() meta.NodeID { return l.store.Topic("t").Partitions[0].Leader }

	first := leader()
	began := time.Now()
	d.set(first, host.DefaultDiskReserve-1)
	for i := 0; leader() == first; i++ {
		l.mustPut("t", 0, fmt.Sprint("meanwhile ", i))
		if time.Since(began) > patience {
			t.Fatalf("%s still leads", first)
		}
	}
	t.Logf("handed over after %s", time.Since(began))
	l.mustPut("t", 0, "b")
	l.eventually("the first to be known as full", func() bool { return l.store.Node(first).DiskFull })

	second := leader()
	d.set(second, host.DefaultDiskReserve-1)
	l.eventually("a leader with room", func() bool { return leader() != second && leader() != first })
	l.mustPut("t", 0, "c")

	third := leader()
	d.set(third, host.DefaultDiskReserve-1)
	l.eventually("all to be known as full", func() bool { return l.store.Node(third).DiskFull })
	epoch := l.store.Topic("t").Partitions[0].Epoch
	for range 3 {
		if err := l.put("t", 0, "x"); !errors.Is(err, failure.DiskFull) || fate.Of(err) != fate.Refused {
			t.Errorf("where all disks are full: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	}
	if now := l.store.Topic("t").Partitions[0]; now.Epoch != epoch || now.Leader != third {
		t.Errorf("%s leads in epoch %d, it was %s in %d: leaderships move though no disk has room", now.Leader, now.Epoch, third, epoch)
	}
	d.set(third, 1<<40)
	l.eventually("publishes to be taken", func() bool { return l.put("t", 0, "d") == nil })
	if len(l.store.Topic("t").Partitions[0].ISR) != 3 {
		t.Errorf("in sync: %v", l.store.Topic("t").Partitions[0].ISR)
	}
}

// follows returns a follower of partition 0 of a topic.
func (l *lan) follows(name string) meta.NodeID {
	p := l.store.Topic(name).Partitions[0]
	return p.Replicas[slices.IndexFunc(p.Replicas, func(n meta.NodeID) bool { return n != p.Leader })]
}

// TestFollowerLeavesHalfOfTheReserve: requests in progress may use the other half. Then
// it accepts no batch, leaves the in-sync set, and rejoins when there is room. It once
// wrote until the disk was full.
func TestFollowerLeavesHalfOfTheReserve(t *testing.T) {
	d := &disks{all: map[meta.NodeID]*small{}}
	l := newLan(t, d.options, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.mustPut("t", 0, "a")
	follower := l.follows("t")
	end := func() seq.Offset { return l.at(follower).Host.Lookup("t").Held(0).Replica.Log().End() }

	d.set(follower, host.DefaultDiskReserve/diskspace.FollowerShare)
	l.eventually("the disk to be low", l.at(follower).Host.Disk.Low)
	l.mustPut("t", 0, "b")
	if len(l.store.Topic("t").Partitions[0].ISR) != 3 || end() != 2 {
		t.Errorf("with half of the reserve it holds %d, in sync are %v", end(), l.store.Topic("t").Partitions[0].ISR)
	}
	d.set(follower, host.DefaultDiskReserve/diskspace.FollowerShare-1)
	l.eventually("the half of the reserve to be spent", l.at(follower).Host.Disk.Brimful)
	l.mustPut("t", 0, "c", "d")
	if isr := l.store.Topic("t").Partitions[0].ISR; slices.Contains(isr, follower) || end() != 2 {
		t.Errorf("with less it holds %d, in sync are %v", end(), isr)
	}
	d.set(follower, host.DefaultDiskReserve)
	l.mustPut("t", 0, "e")
	if end() != 2 {
		t.Errorf("it holds %d before its disk has room", end())
	}
	d.set(follower, host.DefaultDiskReserve+host.DefaultDiskReserve/diskspace.Margin)
	l.inSync("t", 0, 3)
	if end() != 5 {
		t.Errorf("it holds %d in the end", end())
	}
}

// TestNeededFollowerWithFullDiskStopsPublishing: a publish gets the right
// error, consuming continues, and publishing continues once there is room.
func TestNeededFollowerWithFullDiskStopsPublishing(t *testing.T) {
	d := &disks{all: map[meta.NodeID]*small{}}
	l := newLan(t, func(o *Options) {
		d.options(o)
		o.PublishTimeout = 500 * time.Millisecond // of messages accepted before the leader knows
	}, "n1", "n2")
	cfg := meta.TopicConfig{Replicas: 2, MinISR: 2}.WithDefaults(2, false)
	if _, err := l.store.Propose(t.Context(), meta.CreateTopic{Name: "t", Config: cfg, Assignment: [][]meta.NodeID{{"n1", "n2"}}}); err != nil {
		t.Fatal(err)
	}
	l.inSync("t", 0, 2)
	c := l.subscribe("t", "c", 0)
	l.eventually("a publish", func() bool { return l.put("t", 0, "a") == nil })
	follower := l.follows("t")
	d.set(follower, 1000)
	l.eventually("the half of the reserve to be spent", l.at(follower).Host.Disk.Brimful)
	found := l.send("t", "b") // the publish that finds it out
	l.inSync("t", 0, 1)
	l.eventually("publishes to be refused", func() bool {
		err := l.put("t", 0, "refused")
		return errors.Is(err, failure.TooFewISR) && fate.Of(err) == fate.Refused
	})
	if got := c.take(1); got != "a" {
		t.Errorf("got %q", got)
	}
	d.set(follower, 1<<40)
	l.eventually("publishes to be taken", func() bool { return l.put("t", 0, "d") == nil })
	if r := <-found; r.Err != nil && fate.Of(r.Err) != fate.Uncertain {
		t.Errorf("the publish that found it out: %v", r.Err)
	}
}
