package host

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// purgeRest is the pause between two purges of deleted topics on a full disk. purgeLeast is the
	// least number of bytes of such a topic on this node.
	purgeRest  = 5 * time.Second
	purgeLeast = 1 << 20
	// diskProposal bounds one attempt to report in the metadata that the disk is full.
	diskProposal = time.Second
	// diskHandover bounds an attempt to transfer leaderships because the disk is full. Before that,
	// consumers have diskRest to answer messages in flight. diskAgain is the pause after a failed
	// attempt.
	diskHandover = 2 * time.Second
	diskRest     = 200 * time.Millisecond
	diskAgain    = time.Second
	// ampleLooks is how many times less often a disk with ample room is checked.
	ampleLooks = 4
)

// diskLoop checks the free disk space, and frees some.
type diskLoop struct {
	o         *Options
	disk      *diskspace.Space
	full      *fullDisk
	retention *retention
	overfull  <-chan struct{} // an ephemeral topic exceeds its share
}

// run works until ctx ends. r is the previous level of free space.
func (d *diskLoop) run(ctx context.Context, r diskspace.Room) {
	retained, looked := time.Now(), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		interval := d.o.DiskInterval
		if r == diskspace.Ample {
			interval *= ampleLooks
		}
		timer.Reset(beat.Until(time.Now(), interval))
		select {
		case <-ctx.Done():
			return
		case <-d.overfull:
			if d.retention.overfull(); time.Since(looked) < interval {
				continue
			}
		case <-d.disk.Denied():
		case <-timer.C:
		}
		looked = time.Now()
		pause := d.o.RetentionInterval
		if r = d.disk.Look(); r <= diskspace.Low {
			pause = min(pause, lowDiskRetention) // do not wait for the next round
		}
		d.full.report(ctx)
		if time.Since(retained) >= pause {
			d.retention.all()
			retained = time.Now()
		}
	}
}

// fullDisk handles a full disk.
type fullDisk struct {
	o          *Options
	log        *slog.Logger
	life       *life
	disk       *diskspace.Space
	handovers  *handovers
	removal    *removal.Remover
	propose    func(context.Context, meta.Command) (meta.Result, error)
	yielding   atomic.Bool // leaderships are being transferred because the disk is full
	purged     time.Time   // when a deleted topic was last purged
	unrecorded bool        // the metadata does not know the state of the disk, which was logged
}

// report records in the metadata whether this node's disk accepts publishes, if the metadata says
// otherwise, and transfers leaderships while it does not. The next check retries failures.
func (d *fullDisk) report(ctx context.Context) {
	self := d.o.Meta.Node(d.o.Self)
	if self == nil || d.life.exiting.Load() {
		return
	}
	now := time.Now()
	if d.disk.Yields(now, d.o.Meta.IsLeader(), d.o.Meta.Members().TendReserve()) {
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		if err := d.o.Meta.Members().YieldLead(bounded); err != nil {
			d.log.Error("disk full and metadata leadership cannot be transferred: metadata commands are refused until space is freed on this disk", "error", err)
		}
	}
	full := d.disk.Full(now)
	if self.DiskFull == full {
		d.unrecorded = false
	} else {
		d.recordDisk(ctx, self, full)
	}
	if full && d.disk.Low() {
		d.yield()
		d.purge(ctx)
	}
}

// recordDisk records in the metadata whether this node's disk is full. A failure is logged once: other
// nodes act on the earlier state.
func (d *fullDisk) recordDisk(ctx context.Context, self *meta.Node, full bool) {
	bounded, cancel := context.WithTimeout(ctx, diskProposal)
	defer cancel()
	if _, err := d.propose(bounded, meta.SetNodeDisk{ID: d.o.Self, Incarnation: self.Incarnation, Full: full}); err != nil && !d.unrecorded {
		d.unrecorded = true
		d.log.Warn("cannot record in the metadata whether the disk of this node is full; other nodes act on the earlier state; retrying at each disk check", "full", full, "error", err)
	}
}

// purge purges the topic that was deleted first. The next purge waits until the space is free, so
// that the trash is not emptied without effect.
func (d *fullDisk) purge(ctx context.Context) {
	now := time.Now()
	if d.removal.Busy() || now.Sub(d.purged) < purgeRest {
		return
	}
	oldest := d.removal.Oldest(d.o.Meta.View(), purgeLeast)
	if oldest == nil {
		return
	}
	d.purged = now
	d.log.Warn("disk nearly full: deleted topic is purged early and cannot be restored",
		"topic", oldest.Topic.Name, "deleted_at", time.Unix(0, oldest.At), "kept_until", oldest.Until())
	bounded, cancel := context.WithTimeout(ctx, diskProposal)
	defer cancel()
	_, err := d.propose(bounded, meta.PurgeTopics{Incarnations: []meta.Incarnation{oldest.Topic.Incarnation}})
	if err != nil && !errors.Is(err, failure.NotInTrash) {
		d.log.Warn("cannot purge deleted topic; retrying at the next disk check", "topic", oldest.Topic.Name, "error", err)
	}
}

// yield transfers this node's leaderships to in-sync replicas whose disks have room. A partition
// without such a replica stays, and refuses publishes.
func (d *fullDisk) yield() {
	s := d.o.Meta.View()
	all := controller.Handover(s, controller.ConditionsOf(s), d.o.Self, meta.ReasonDisk)
	if len(all) == 0 || !d.yielding.CompareAndSwap(false, true) {
		return
	}
	d.life.running.Go(func() {
		defer d.yielding.Store(false)
		ctx, cancel := context.WithTimeout(d.life.ctx, diskHandover)
		defer cancel()
		resting, rested := context.WithTimeout(ctx, diskRest)
		d.handovers.rest(resting, all)
		rested()
		failed := d.handovers.many(ctx, all)
		d.handovers.wake(all)
		d.log.Warn("disk nearly full: leadership of partitions transferred to other in-sync replicas",
			"partitions", len(all)-len(failed), "failed", len(failed))
		if len(failed) > 0 {
			d.log.Error("cannot transfer leadership of partitions, which refuse publishes; retrying", "first_error", failed[0])
			beat.Pause(d.life.ctx, diskAgain)
		}
	})
}

// hasRoom returns a function that reports whether the disk accepts messages, and reserves the space
// for them.
func hasRoom(d *diskspace.Space) func([]topic.Message) bool {
	return func(messages []topic.Message) bool { return d.Reserve(topic.StoredSize(messages)) }
}
