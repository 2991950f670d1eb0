package host

import (
	"errors"
	"log/slog"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/once"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/seq"
)

// lowDiskRetention is how often retention runs while the disk is nearly full.
const lowDiskRetention = time.Second

// smallLog is how much of finished messages an idle partition may keep: freeing less is not worth a
// new segment.
const smallLog = 1 << 20

// The durable end of a busy log is recorded after this many bytes or this much time: that much
// is read at a start after a crash. An idle log is recorded completely. Recording thousands of
// busy logs in every round would keep the disk from publishes.
const (
	recordAfterBytes = 256 << 10
	recordAfter      = time.Minute
)

// TrashFor is how long messages are kept for an undo of an operator's change of a channel,
// unless the disk is nearly full, or the partition has nearly reached the topic's maximum size.
const TrashFor = 24 * time.Hour

// retention drops messages that need not be kept. One goroutine uses it.
type retention struct {
	o      *Options
	log    *slog.Logger
	topics *Topics
	disk   *diskspace.Space
	asides *quarantine.Asides
	steady age.Steady  // the clock of retention
	state  *meta.State // as of the beginning of a round
}

// all drops messages that no channel needs and no policy keeps, and records the durable end of each
// log, where recovery would begin to read. A wall clock that is set forward ages nothing until it
// has stayed so for age.StepTrust.
func (r *retention) all() {
	r.state = r.o.Meta.View()
	r.asides.Release()
	moment := time.Now()
	now := time.Unix(0, r.steady.Read(moment, r.o.WallClock(moment)))
	r.topics.EachHeld(func(h *Topic, hp *Held) {
		r.one(h, hp, now, moment)
		hp.rest()
	})
	r.o.Log.Cache.Sweep()
	r.refund()
}

// overfull drops the excess of ephemeral topics, and of topics with a maximum or a size to which they are reduced.
func (r *retention) overfull() {
	r.state = r.o.Meta.View()
	moment := time.Now()
	now := time.Unix(0, r.steady.Read(moment, r.o.WallClock(moment)))
	r.topics.EachHeld(func(h *Topic, hp *Held) {
		c := &h.Config().Config
		if h.memory != nil || c.MaxBytes > 0 || c.RetentionBytes > 0 && hp.Replica.Log().Bytes() > c.RetentionBytes {
			r.one(h, hp, now, moment)
		}
	})
	r.refund()
}

// refund releases the memory of dropped messages.
func (r *retention) refund() {
	for _, h := range r.topics.Hosted() {
		if h.memory == nil {
			continue
		}
		stored := int64(0)
		for _, hp := range h.AllHeld() {
			if hp != nil {
				stored += hp.Replica.Log().Bytes()
			}
		}
		h.memory.Refund(stored)
	}
}

// one drops what a replica need not keep.
func (r *retention) one(h *Topic, hp *Held, now, moment time.Time) {
	c := h.Config().Config
	limit, share := quota.Bounds(&c)
	if meta.IsEphemeral(h.Name) && (limit == 0 || limit > r.o.EphemeralBytes) {
		limit = r.o.EphemeralBytes
	}
	l := hp.Replica.Log()
	last := r.disk.Low() || (hp.idle && (l.Bytes() > smallLog || share > 0 && l.Bytes() > share/2))
	keep := commitlog.Retention{Now: now, Moment: moment, MaxAge: keptFor(&c), MaxBytes: limit, Share: share, Last: last}
	if !r.disk.Low() && !quota.NearlyFull(l.Bytes(), share, h.Disk.RefusedSize(moment)) {
		keep.Hold = undoFloor(r.state, h.Config(), hp.index, now)
	}
	unfinished, err := hp.retain(keep)
	if unfinished > 0 && h.Disk.Dropped(uint64(unfinished), moment) {
		r.log.Warn("deleted messages that a channel has not finished, because their partition has reached its maximum size", "topic", h.Name, "partition", hp.index, "messages", unfinished)
	}
	err = errors.Join(err, l.Checkpoint(hp.minUnrecorded(moment)))
	if failed := err != nil; failed != hp.unretained {
		hp.unretained = failed // logged when failures begin
		if failed {
			r.log.Warn("cannot delete old messages of a partition or record how much of its log is synced; the log may exceed its size limit; retrying in each round", "topic", h.Name, "partition", hp.index, "error", err)
		}
	}
}

// undoFloor returns the first offset of a partition that an undo would deliver; nil: there is none.
func undoFloor(s *meta.State, t *meta.Topic, partition int, now time.Time) *seq.Offset {
	if floor, some := meta.HistoryOf(s).Floor(t, partition, now.Add(-TrashFor).UnixNano()); some {
		return &floor
	}
	return nil
}

// minUnrecorded returns how many bytes must have been appended to a log before its durable end is
// recorded again.
func (hp *Held) minUnrecorded(now time.Time) int64 {
	if hp.idle || now.Sub(hp.recordedAt) >= recordAfter {
		hp.recordedAt = now
		return 0
	}
	return recordAfterBytes
}

// keptFor returns how long finished messages stay: as configured for the topic, and as long as the
// next leader must find their dedup ids.
func keptFor(c *meta.TopicConfig) time.Duration {
	return max(c.RetentionAge, once.Retention(c.DedupWindow))
}
