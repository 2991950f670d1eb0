package host

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// DiskMargin is which part of the reserve must be free beyond it before a disk
	// that was low takes publishes again.
	DiskMargin = 8
	// FollowerShare is which part of the reserve is left to followers, for what was under
	// way when the leaders' disks were full, too: they take nothing while less is free.
	FollowerShare = 2
	// diskCalm is how long a disk must have had room before the other nodes are told
	// that it has. So a disk at the brink moves leaderships no more often than that.
	diskCalm = 10 * time.Second
	// diskProposal bounds one attempt to tell them.
	diskProposal = time.Second
	// diskHandover bounds an attempt to hand leaderships over because the disk is
	// full, and diskRest how long consumers may take to answer what they have before.
	// diskAgain is the pause after an attempt that failed.
	diskHandover = 2 * time.Second
	diskRest     = 200 * time.Millisecond
	diskAgain    = time.Second
	// diskLead is how long a node must have led the metadata before it hands that over
	// because there is no space for commands: where no disk has space, the lead does not
	// go round faster.
	diskLead = 10 * time.Second
	// ampleBytes beyond the reserve are more than is written between two looks at a
	// disk with ample room, and ampleLooks how many times less often it is looked at.
	ampleBytes = 8 << 30
	ampleLooks = 4
)

// Room classifies the free space of the disk.
type Room int

const (
	brimful Room = iota // followers take nothing either
	low                 // publishes are refused
	enough              // it may be low before long
	ample               // it will not be low before several looks
)

// headroom is how many bytes may be appended before the disk is down to its reserve,
// as far as is known from the last look at it and what was taken for appends since. Its
// methods may be called by many goroutines.
type headroom struct {
	left  atomic.Int64
	taken atomic.Int64 // since the last look, or shortly before: the disk need not show it yet
	short atomic.Bool  // somebody was refused since the last look
}

// observe notes what a look at the disk has shown.
func (h *headroom) observe(free, reserve uint64) {
	h.left.Store(clampSigned(free) - clampSigned(reserve) - h.taken.Swap(0))
}

// unknown notes that nothing is known of the disk.
func (h *headroom) unknown() { h.left.Store(math.MaxInt64 / 2) }

// take takes n bytes, if there are so many.
func (h *headroom) take(n int64) bool {
	if h.left.Add(-n) < 0 {
		h.left.Add(n)
		h.short.Store(true)
		return false
	}
	h.taken.Add(n)
	return true
}

// shows returns how much a look counts as free: less than the reserve where somebody was
// refused. Then the disk is low, though it need never show it: what would make it so
// is not written.
func (h *headroom) shows(free, reserve uint64) uint64 {
	if h.short.Swap(false) && reserve > 0 {
		return min(free, reserve-1)
	}
	return free
}

func clampSigned(n uint64) int64 { return int64(min(n, math.MaxInt64/2)) }

// diskLevel is what a node makes of the free space on its disk. It is for one
// goroutine.
type diskLevel struct {
	low     bool
	brimful bool
	lowLast time.Time // when it was low last; zero: never
	leads   time.Time // since when the node leads the metadata; zero: it does not
}

// observe notes how much is free, and returns how much room that is. What is low
// stays low until there is more than the reserve, and what is brimful until it is not
// low.
func (d *diskLevel) observe(now time.Time, free, reserve uint64) Room {
	need := reserve
	if d.low {
		need += reserve / DiskMargin
	}
	if d.low = free < need; d.low {
		d.lowLast = now
		if d.brimful = d.brimful || free < reserve/FollowerShare; d.brimful {
			return brimful
		}
		return low
	}
	d.brimful = false
	if free < reserve+ampleBytes {
		return enough
	}
	return ample
}

// full says what the other nodes are to be told: it was low not long ago.
func (d *diskLevel) full(now time.Time) bool {
	return !d.lowLast.IsZero() && now.Sub(d.lowLast) < diskCalm
}

// yields says whether a node that has no space for the metadata's commands is to hand
// over the lead of the metadata, if it has it. It is asked at every look.
func (d *diskLevel) yields(now time.Time, leads, space bool) bool {
	switch {
	case !leads:
		d.leads = time.Time{}
		return false
	case d.leads.IsZero():
		d.leads = now
	}
	return !space && now.Sub(d.leads) >= diskLead
}

// runDisk looks at the room on the disk, and makes some, until ctx ends.
func (n *Host) runDisk(ctx context.Context, r Room) {
	retained := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		interval := n.o.DiskInterval
		if r == ample {
			interval *= ampleLooks
		}
		timer.Reset(beat.Until(time.Now(), interval))
		select {
		case <-ctx.Done():
			return
		case <-n.overfull:
			retention{n: n}.overfull()
			continue
		case <-timer.C:
		}
		pause := n.o.RetentionInterval
		if r = n.CheckDisk(); r <= low {
			pause = min(pause, lowDiskRetention) // it cannot wait for the next round
		}
		fullDisk{n}.report(ctx)
		if time.Since(retained) >= pause {
			retention{n: n}.all()
			retained = time.Now()
		}
	}
}

// CheckDisk refuses publishes while the disk has less than the reserve free, and has
// followers refuse messages once half of it is used, so that positions and metadata
// can still be stored and consuming goes on. It returns how much there is. It is for
// one goroutine.
func (n *Host) CheckDisk() Room {
	u, err := n.o.FS.Usage(n.o.DataDir)
	if err != nil {
		n.log.Warn("cannot read free disk space", "path", n.o.DataDir, "error", err)
		n.headroom.unknown()
		switch {
		case n.brimful.Load():
			return brimful
		case n.lowDisk.Load():
			return low
		}
		return enough
	}
	n.headroom.observe(u.Free, n.reserve(u))
	r := n.disk.observe(time.Now(), n.headroom.shows(u.Free, n.reserve(u)), n.reserve(u))
	if full := r <= low; n.lowDisk.Swap(full) != full {
		if full {
			n.log.Error("disk nearly full: publishes are refused until space is freed, and leadership moves to in-sync replicas with free space",
				"free_bytes", u.Free, "reserve_bytes", n.reserve(u))
		} else {
			n.log.Info("disk space available again; publishes accepted", "free_bytes", u.Free)
		}
	}
	if brimful := r == brimful; n.brimful.Swap(brimful) != brimful && brimful {
		n.log.Error("half of the disk reserve is used: followers on this node stop replicating until space is freed, and leave the in-sync sets",
			"free_bytes", u.Free, "reserve_bytes", n.reserve(u))
	}
	return r
}

// reserve returns how much of a disk is kept free: less of a small one.
func (n *Host) reserve(u vfs.Usage) uint64 { return min(n.o.DiskReserve, u.Total/20) }

// fullDisk is what a node does about a disk that is full.
type fullDisk struct{ n *Host }

// report tells the metadata whether this node's disk takes publishes, where it
// says otherwise, and hands leaderships over while it does not. What fails is tried
// again at the next look.
func (d fullDisk) report(ctx context.Context) {
	self := d.n.o.Meta.Node(d.n.o.Self)
	if self == nil || d.n.exiting.Load() {
		return
	}
	now := time.Now()
	if d.n.disk.yields(now, d.n.o.Meta.IsLeader(), d.n.o.Meta.Members().TendReserve()) {
		d.n.disk.leads = now // again only after a while
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		if err := d.n.o.Meta.Members().YieldLead(bounded); err != nil {
			d.n.log.Error("disk full: metadata commands are refused and metadata leadership cannot be transferred", "error", err)
		}
	}
	full := d.n.disk.full(now)
	if self.DiskFull != full {
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		c := meta.SetNodeDisk{ID: d.n.o.Self, Incarnation: self.Incarnation, Full: full}
		if _, err := d.n.Propose(bounded, c); err != nil {
			d.n.log.Debug("cannot check disk space for the metadata", "full", full, "error", err)
			return
		}
	}
	if full && d.n.lowDisk.Load() {
		d.yield()
	}
}

// yield hands what this node leads over to in-sync replicas whose disks have
// room. Where there is none, the partition stays, and refuses publishes.
func (d fullDisk) yield() {
	s := d.n.o.Meta.View()
	all := controller.Handover(s, controller.ConditionsOf(s), d.n.o.Self, meta.ReasonDisk)
	if len(all) == 0 || !d.n.yielding.CompareAndSwap(false, true) {
		return
	}
	d.n.running.Go(func() {
		defer d.n.yielding.Store(false)
		ctx, cancel := context.WithTimeout(d.n.life, diskHandover)
		defer cancel()
		h := handovers(d)
		resting, rested := context.WithTimeout(ctx, diskRest)
		h.rest(resting, all)
		rested()
		failed := h.many(ctx, all)
		h.wake(all)
		d.n.log.Warn("disk nearly full: leadership of partitions transferred to other in-sync replicas",
			"partitions", len(all)-len(failed), "failed", len(failed))
		if len(failed) > 0 {
			d.n.log.Error("cannot transfer leadership of partitions, which refuse publishes; retrying", "first_error", failed[0])
			beat.Pause(d.n.life, diskAgain)
		}
	})
}

// HasRoom says whether the disk takes messages, and takes the room for them.
func (n *Host) HasRoom(messages []topic.Message) bool {
	return !n.lowDisk.Load() && n.headroom.take(int64(topic.StoredSize(messages)))
}

// LowDisk says whether publishes are refused for want of free space.
func (n *Host) LowDisk() bool { return n.lowDisk.Load() }

// Brimful says whether followers here take no messages for want of free space.
func (n *Host) Brimful() bool { return n.brimful.Load() }
