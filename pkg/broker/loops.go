package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// startLoops starts what a node does at its own pace.
func (b *Broker) startLoops(ctx context.Context) {
	f := follower{n: b.hosting}
	b.running.Go(func() { f.run(ctx) })
	if b.o.Peers != nil {
		b.running.Go(func() { b.terms.run(ctx) })
	}
	b.running.Go(func() { b.forwarding.run(ctx) })
	b.running.Go(func() { b.timers.run(ctx, b.o.TickInterval) })
	b.running.Go(func() { b.unsaved.run(ctx, b.o.CheckpointInterval, b.checkpoint) })
	room := b.checkDisk()
	b.running.Go(func() { b.runDisk(ctx, room) })
}

// room is how much of it there is on the disk.
type room int

const (
	low    room = iota // publishes are refused
	enough             // it may be low before long
	ample              // it will not be low before several looks
)

// ampleLooks is how many times less often it is looked at a disk with ample room.
const ampleLooks = 4

// runDisk looks at the room on the disk, and makes some, until ctx ends.
func (b *Broker) runDisk(ctx context.Context, r room) {
	retained := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		interval := b.o.DiskInterval
		if r == ample {
			interval *= ampleLooks
		}
		timer.Reset(beat.Until(time.Now(), interval))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := b.o.RetentionInterval
		if r = b.checkDisk(); r == low {
			pause = min(pause, lowDiskRetention) // it cannot wait for the next round
		}
		if time.Since(retained) >= pause {
			b.retain()
			retained = time.Now()
		}
	}
}

// unsaved are the replicas of which something is to be looked at by a checkpoint:
// positions changed, or the copy was found damaged. All others cost nothing.
type unsaved struct {
	wakeup chan struct{} // there is one

	mu  sync.Mutex // guards all
	all map[*hostedPartition]*hostedTopic
}

// add asks for a look at a replica. It does not block.
func (u *unsaved) add(h *hostedTopic, hp *hostedPartition) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*hostedPartition]*hostedTopic{}
	}
	u.all[hp] = h
	if len(u.all) == 1 {
		select {
		case u.wakeup <- struct{}{}:
		default:
		}
	}
}

// take returns what was added since the last time.
func (u *unsaved) take() map[*hostedPartition]*hostedTopic {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.all
	u.all = nil
	return all
}

// run calls f at the multiples of an interval, while there is something to look
// at, until ctx ends.
func (u *unsaved) run(ctx context.Context, interval time.Duration, f func()) {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-u.wakeup:
		}
		timer.Reset(beat.Until(time.Now(), interval))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f()
		}
	}
}

// checkpoint stores the positions that changed. What could not be stored is tried
// again with the next one.
func (b *Broker) checkpoint() {
	for hp, h := range b.unsaved.take() {
		quarantine{b.hosting}.inspect(h, hp)
		err := hp.checkpoint()
		if failed := err != nil; failed != hp.unstored {
			hp.unstored = failed // said when it begins and when it ends
			if failed {
				b.log.Warn("positions are not stored: what is finished meanwhile is delivered again if the node dies",
					"topic", h.name, "partition", hp.index, "error", err)
			} else {
				b.log.Info("positions are stored again", "topic", h.name, "partition", hp.index)
			}
		}
	}
}

// lowDiskRetention is how often room is looked for on a disk that is nearly full.
const lowDiskRetention = time.Second

// smallLog is what an idle partition may keep of finished messages: making room
// of less is not worth a new segment.
const smallLog = 1 << 20

// retain drops what no channel needs and no policy keeps, and notes how far the
// logs are durable, which is where recovery would start to read.
func (b *Broker) retain() {
	quarantine{b.hosting}.release()
	now := time.Now()
	b.eachPartition(func(h *hostedTopic, hp *hostedPartition) {
		c := h.config.Load().Config
		limit := c.RetentionBytes
		if meta.IsEphemeral(h.name) && (limit == 0 || limit > b.o.EphemeralBytes) {
			limit = b.o.EphemeralBytes
		}
		l := hp.replica.Log()
		last := b.lowDisk.Load() || (hp.idle && l.Bytes() > smallLog)
		r := commitlog.Retention{Now: now, MaxAge: c.RetentionAge, MaxBytes: limit, Last: last}
		err := errors.Join(hp.retain(r), l.Checkpoint())
		if failed := err != nil; failed != hp.unretained {
			hp.unretained = failed // said when it begins
			if failed {
				b.log.Warn("finished messages are not dropped", "topic", h.name, "partition", hp.index, "error", err)
			}
		}
		hp.rest()
	})
}

// rest gives back memory that a partition needs only while it is in use. It is
// called by one goroutine, now and then.
func (hp *hostedPartition) rest() {
	end := hp.replica.Log().End()
	hp.idle = end == hp.endBefore
	hp.endBefore = end
	if !hp.idle {
		return
	}
	hp.replica.Log().ReleaseTail()
	if lp := hp.led.Load(); lp != nil {
		for _, c := range lp.part.Channels() {
			c.Trim()
		}
	}
}

func (n *shelf) eachPartition(f func(*hostedTopic, *hostedPartition)) {
	n.hosted.Range(func(_, v any) bool {
		h := v.(*hostedTopic)
		for _, hp := range h.partitions() {
			if hp != nil {
				f(h, hp)
			}
		}
		return true
	})
}

// checkDisk refuses publishes while the disk has less than the reserve free, so
// that positions and metadata can still be stored and consuming goes on. It
// returns how much there is.
func (b *Broker) checkDisk() room {
	u, err := b.o.FS.Usage(b.o.DataDir)
	if err != nil {
		b.log.Warn("disk usage", "error", err)
		if b.lowDisk.Load() {
			return low
		}
		return enough
	}
	full := u.Free < b.reserve(u)
	if b.lowDisk.Swap(full) != full {
		if full {
			b.log.Error("the disk is nearly full: publishes are refused until there is room", "free_bytes", u.Free)
		} else {
			b.log.Info("the disk has room again: publishes are taken", "free_bytes", u.Free)
		}
	}
	switch {
	case full:
		return low
	case u.Free < b.reserve(u)+ampleBytes:
		return enough
	}
	return ample
}

// ampleBytes beyond the reserve are more than is written between two looks at a
// disk with ample room.
const ampleBytes = 8 << 30

// reserve returns how much of a disk is kept free: less of a small one.
func (b *Broker) reserve(u vfs.Usage) uint64 { return min(b.o.DiskReserve, u.Total/20) }

// timers ticks the channels in which something may time out or fall due. While
// there is none, it sleeps.
type timers struct {
	wakeup chan struct{} // something was armed

	mu    sync.Mutex // guards armed
	armed []*topic.Channel
}

// arm asks for ticks of a channel until its Tick returns false. A channel is
// armed once at a time: see topic.Options.
func (t *timers) arm(c *topic.Channel) {
	t.mu.Lock()
	t.armed = append(t.armed, c)
	first := len(t.armed) == 1
	t.mu.Unlock()
	if first {
		select {
		case t.wakeup <- struct{}{}:
		default:
		}
	}
}

func (t *timers) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var active []*topic.Channel
	for {
		if len(active) == 0 {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return
			case <-t.wakeup:
			}
			ticker.Reset(interval)
		}
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			active = t.tick(now, active)
		}
	}
}

// tick adds what was armed to the active channels, ticks all, and returns those
// that need more.
func (t *timers) tick(now time.Time, active []*topic.Channel) []*topic.Channel {
	t.mu.Lock()
	active = append(active, t.armed...)
	clear(t.armed)
	t.armed = t.armed[:0]
	t.mu.Unlock()
	kept := active[:0]
	for _, c := range active {
		if c.Tick(now) {
			kept = append(kept, c)
		}
	}
	clear(active[len(kept):])
	return kept
}
