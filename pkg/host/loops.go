package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// startLoops starts the node's periodic work.
func (n *Host) startLoops(ctx context.Context) {
	f := applier{
		o: n.o, log: n.o.Logger, topics: n.Topics, ask: func(topic string) { n.Converger.topics.Ask(topic) },
		failures: n.failures, shifts: n.shifts, seen: &meta.State{},
	}
	n.life.running.Go(func() { f.run(ctx) })
	if n.o.Peers != nil {
		n.life.running.Go(func() { n.terms.run(ctx) })
	}
	n.life.running.Go(func() { beat.Every(ctx, expireEvery, n.roles.expire) })
	n.life.running.Go(func() { n.Stalls.Run(ctx) })
	n.life.running.Go(func() { newLeadWatch(n).run(ctx) })
	n.life.running.Go(func() { beat.Every(ctx, flow.Every, func() { measure(n.Topics.Hosted(), time.Now()) }) })
	n.life.running.Go(func() { n.timers.run(ctx, n.o.TickInterval) })
	n.life.running.Go(func() { n.unsaved.run(ctx, checkpointInterval, newCheckpointer(n).round) })
	if n.o.ScrubInterval > 0 {
		n.life.running.Go(func() { n.Scrubber.Run(ctx) })
	}
	room := n.Disk.Look()
	full := &fullDisk{o: n.o, log: n.o.Logger, life: n.life, disk: n.Disk, handovers: n.handovers, removal: n.removal, propose: n.Propose}
	keep := &retention{o: n.o, log: n.o.Logger, topics: n.Topics, disk: n.Disk, asides: n.Quarantine.Asides}
	d := &diskLoop{o: n.o, disk: n.Disk, full: full, retention: keep, overfull: n.Topics.overfull}
	n.life.running.Go(func() { d.run(ctx, room) })
}

// unsaved are the replicas that a checkpoint must visit, because positions changed or damage was
// found. All others cost nothing.
type unsaved struct {
	wakeup chan struct{} // signals that there is one

	mu  sync.Mutex // guards all
	all map[*Held]*Topic
}

// add requests a visit of a replica. It does not block.
func (u *unsaved) add(h *Topic, hp *Held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*Held]*Topic{}
	}
	u.all[hp] = h
	if len(u.all) == 1 {
		signal.Poke(u.wakeup)
	}
}

// popAll returns the replicas added since the last call.
func (u *unsaved) popAll() map[*Held]*Topic {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.all
	u.all = nil
	return all
}

// run calls f at the multiples of an interval, as long as replicas are waiting, until ctx ends.
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

// checkpointTogether is how many replicas store their positions at the same time.
const checkpointTogether = 8

// checkpointer stores positions of several replicas at a time, so that a large or slow one delays
// no other.
type checkpointer struct {
	log        *slog.Logger
	life       *life
	unsaved    *unsaved
	quarantine *Quarantine

	slots chan struct{} // one for each replica in progress
}

func newCheckpointer(n *Host) *checkpointer {
	return &checkpointer{log: n.o.Logger, life: n.life, unsaved: n.unsaved, quarantine: n.Quarantine, slots: make(chan struct{}, checkpointTogether)}
}

// round stores the positions that changed. A replica still being stored since an earlier round is
// visited in the next one.
func (c *checkpointer) round() {
	for hp, h := range c.unsaved.popAll() {
		if !hp.storing.CompareAndSwap(false, true) {
			c.unsaved.add(h, hp)
			continue
		}
		c.slots <- struct{}{}
		store := func() {
			defer func() { <-c.slots }()
			defer hp.storing.Store(false)
			c.store(h, hp)
		}
		if !c.life.running.Go(store) {
			store()
		}
	}
}

// store stores the positions of a replica. The next round retries a failure.
func (c *checkpointer) store(h *Topic, hp *Held) {
	c.quarantine.inspect(h, hp)
	err := hp.Checkpoint()
	failed := err != nil
	if failed == hp.unstored {
		return
	}
	hp.unstored = failed // logged when failures begin and when they end
	if failed {
		c.log.Warn("cannot store positions: recently finished messages are redelivered if the node crashes",
			"topic", h.Name, "partition", hp.index, "error", err)
	} else {
		c.log.Info("positions stored again", "topic", h.Name, "partition", hp.index)
	}
}

// rest releases memory that a partition needs only while it is in use. One goroutine calls it
// periodically.
func (hp *Held) rest() {
	end := hp.Replica.Log().End()
	hp.idle = end == hp.endBefore
	hp.endBefore = end
	if !hp.idle {
		return
	}
	hp.Replica.Log().ReleaseTail()
	if lp := hp.Led.Load(); lp != nil {
		for _, c := range lp.Part.Channels() {
			c.Trim()
		}
	}
}

// timers ticks the channels in which something may time out or become due. Without such channels it
// sleeps.
type timers struct {
	wakeup chan struct{} // signals that a channel was armed

	mu    sync.Mutex // guards armed
	armed []*topic.Channel
}

// arm requests ticks of a channel until its Tick returns false. A channel is armed only once at a
// time: see topic.Options.
func (t *timers) arm(c *topic.Channel) {
	t.mu.Lock()
	t.armed = append(t.armed, c)
	first := len(t.armed) == 1
	t.mu.Unlock()
	if first {
		signal.Poke(t.wakeup)
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

// tick adds armed channels to the active ones, ticks all, and returns those that need more ticks.
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

// measure records how many messages reached the channels of the partitions led here, and how many
// were finished.
func measure(topics []*Topic, now time.Time) {
	for _, h := range topics {
		for _, lp := range h.AllLed() {
			for _, c := range lp.Part.Channels() {
				c.Measure(now)
			}
		}
	}
}

// life is the lifetime of a node and its background work.
type life struct {
	log   *slog.Logger
	fatal func(error)

	ctx      context.Context // ends when the node closes
	end      context.CancelFunc
	running  fan.Group             // the node's loops and other background work
	leaving  atomic.Bool           // leaderships are transferred away, before a stop
	exiting  atomic.Bool           // changes are refused
	failed   atomic.Pointer[error] // why the node cannot continue
	failOnce sync.Once
}

func newLife(log *slog.Logger, fatal func(error)) *life {
	l := &life{log: log, fatal: fatal}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// fail ends the node's work: earlier acknowledgements hold, and nothing more is acknowledged.
func (l *life) fail(err error) {
	l.failOnce.Do(func() {
		l.failed.Store(&err)
		l.log.Error("fatal error: the node stops and acknowledges nothing more; what it has acknowledged is kept", "error", err)
		l.fatal(err)
	})
}
