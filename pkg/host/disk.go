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
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// purgeRest is the pause between two deleted topics that a node with a full disk purges,
	// and purgeLeast how many bytes it must have of one.
	purgeRest  = 5 * time.Second
	purgeLeast = 1 << 20
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

// diskLoop looks at the room on the disk, and makes some.
type diskLoop struct {
	o         *Options
	disk      *diskspace.Space
	full      *fullDisk
	retention *retention
	overfull  <-chan struct{} // an ephemeral topic has too much
}

// run works until ctx ends. The disk had room r before.
func (d *diskLoop) run(ctx context.Context, r diskspace.Room) {
	retained := time.Now()
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
			d.retention.overfull()
			continue
		case <-timer.C:
		}
		pause := d.o.RetentionInterval
		if r = d.disk.Look(); r <= diskspace.Low {
			pause = min(pause, lowDiskRetention) // it cannot wait for the next round
		}
		d.full.report(ctx)
		if time.Since(retained) >= pause {
			d.retention.all()
			retained = time.Now()
		}
	}
}

// fullDisk is what a node does about a disk that is full.
type fullDisk struct {
	o         *Options
	log       *slog.Logger
	life      *life
	disk      *diskspace.Space
	handovers *handovers
	removal   *removal.Remover
	propose   func(context.Context, meta.Command) (meta.Result, error)
	yielding  atomic.Bool // leaderships are being handed over because the disk is full
	purged    time.Time   // when a deleted topic was purged last
}

// report tells the metadata whether this node's disk takes publishes, where it
// says otherwise, and hands leaderships over while it does not. What fails is tried
// again at the next look.
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
			d.log.Error("disk full: metadata commands are refused and metadata leadership cannot be transferred", "error", err)
		}
	}
	full := d.disk.Full(now)
	if self.DiskFull != full {
		bounded, cancel := context.WithTimeout(ctx, diskProposal)
		defer cancel()
		c := meta.SetNodeDisk{ID: d.o.Self, Incarnation: self.Incarnation, Full: full}
		if _, err := d.propose(bounded, c); err != nil {
			d.log.Debug("cannot check disk space for the metadata", "full", full, "error", err)
			return
		}
	}
	if full && d.disk.Low() {
		d.yield()
		d.purge(ctx)
	}
}

// purge makes room: the topic goes for good that was deleted first. The next one waits until
// that shows, since the trash is not to be emptied where it does not help.
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
	if err != nil && !errors.Is(err, meta.ErrNotInTrash) {
		d.log.Warn("cannot purge deleted topic; retrying at the next disk check", "topic", oldest.Topic.Name, "error", err)
	}
}

// yield hands what this node leads over to in-sync replicas whose disks have
// room. Where there is none, the partition stays, and refuses publishes.
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
		h := d.handovers
		resting, rested := context.WithTimeout(ctx, diskRest)
		h.rest(resting, all)
		rested()
		failed := h.many(ctx, all)
		h.wake(all)
		d.log.Warn("disk nearly full: leadership of partitions transferred to other in-sync replicas",
			"partitions", len(all)-len(failed), "failed", len(failed))
		if len(failed) > 0 {
			d.log.Error("cannot transfer leadership of partitions, which refuse publishes; retrying", "first_error", failed[0])
			beat.Pause(d.life.ctx, diskAgain)
		}
	})
}

// hasRoom reports whether a disk takes messages, and takes the room for them.
func hasRoom(d *diskspace.Space) func([]topic.Message) bool {
	return func(messages []topic.Message) bool { return d.Reserve(topic.StoredSize(messages)) }
}
