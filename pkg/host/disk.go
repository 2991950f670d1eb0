package host

import (
	"context"
	"errors"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// diskProposal bounds one attempt to tell the other nodes that the disk is full.
	diskProposal = time.Second
	// diskHandover bounds an attempt to hand leaderships over because the disk is
	// full, and diskRest how long consumers may take to answer what they have before.
	// diskAgain is the pause after an attempt that failed.
	diskHandover = 2 * time.Second
	diskRest     = 200 * time.Millisecond
	diskAgain    = time.Second
	// ampleLooks is how many times less often a disk with ample room is looked at.
	ampleLooks = 4
)

// runDisk looks at the room on the disk, and makes some, until ctx ends.
func (n *Host) runDisk(ctx context.Context, r diskspace.Room) {
	retained := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		interval := n.o.DiskInterval
		if r == diskspace.Ample {
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
		if r = n.Disk.Look(); r <= diskspace.Low {
			pause = min(pause, lowDiskRetention) // it cannot wait for the next round
		}
		fullDisk{n}.report(ctx)
		if time.Since(retained) >= pause {
			retention{n: n}.all()
			retained = time.Now()
		}
	}
}

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
	if d.n.Disk.Yields(now, d.n.o.Meta.IsLeader(), d.n.o.Meta.Members().TendReserve()) {
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		if err := d.n.o.Meta.Members().YieldLead(bounded); err != nil {
			d.n.log.Error("disk full: metadata commands are refused and metadata leadership cannot be transferred", "error", err)
		}
	}
	full := d.n.Disk.Full(now)
	if self.DiskFull != full {
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		c := meta.SetNodeDisk{ID: d.n.o.Self, Incarnation: self.Incarnation, Full: full}
		if _, err := d.n.Propose(bounded, c); err != nil {
			d.n.log.Debug("cannot check disk space for the metadata", "full", full, "error", err)
			return
		}
	}
	if full && d.n.Disk.Low() {
		d.yield()
		d.purge(ctx)
	}
}

// purge makes room: the topic goes for good that was deleted first.
func (d fullDisk) purge(ctx context.Context) {
	oldest := d.n.removal.Oldest(d.n.o.Meta.View())
	if oldest == nil {
		return
	}
	d.n.log.Warn("disk nearly full: deleted topic is purged early and cannot be restored",
		"topic", oldest.Topic.Name, "deleted_at", time.Unix(0, oldest.At), "kept_until", oldest.Until())
	bounded, cancel := context.WithTimeout(ctx, diskProposal)
	defer cancel()
	_, err := d.n.Propose(bounded, meta.PurgeTopics{Incarnations: []meta.Incarnation{oldest.Topic.Incarnation}})
	if err != nil && !errors.Is(err, meta.ErrNotInTrash) {
		d.n.log.Warn("cannot purge deleted topic; retrying at the next check of the disk", "topic", oldest.Topic.Name, "error", err)
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

// hasRoom says whether a disk takes messages, and takes the room for them.
func hasRoom(d *diskspace.Space) func([]topic.Message) bool {
	return func(messages []topic.Message) bool { return d.Take(topic.StoredSize(messages)) }
}
