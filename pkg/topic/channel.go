package topic

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/processing"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// ChannelOptions are the settings of a channel in the metadata.
type ChannelOptions struct {
	Order     policy.Order
	Paused    bool
	Ephemeral bool
	First     bool     // the topic had no durable channel when it was created
	Filter    string   // "": none
	Former    []uint64 // versions of deleted channels whose messages are for this one, too; not modified
}

// Channel is a channel on one partition: the shell around its channel.State. It owns the lock,
// wakes waiting consumers when there are messages, and requests ticks while a message may time out
// or become due.
type Channel struct {
	p         *Partition
	name      string
	version   uint64
	former    atomic.Pointer[[]uint64] // see ChannelOptions
	ephemeral bool
	stored    atomic.Bool  // its start is on disk, or need not be
	waiters   atomic.Int32 // number of waiting consumers, readable without the lock
	oldest    atomic.Pointer[publication]
	times     *processing.Times // nil: none are recorded

	Spins     processing.Spins // messages that consumers requeue at once
	Flow      flow.Meter       // rates of messages, recorded by Measure
	Selection filter.Selection // chooses the channel's messages
	Failed    failed           // outcomes of exhausted messages
	bounded   atomic.Bool      // attempts are bounded
	limit     atomic.Pointer[policy.Limit]
	keys      keyScan

	mu        sync.Mutex // guards what follows
	state     *channel.State
	recorder  *channel.Recorder // of state
	consumers []*Consumer
	tags      channel.Tags // requested by consumers
	waiting   waitlist
	lastID    uint64 // of the last consumer
	departed  departed
	limited   bool            // limit delayed a consumer
	armed     bool            // ticks have been requested
	holding   bool            // consumers may be reserved: see Consumer.Reserved
	finishing pendingFinishes // FINs that other replicas have yet to store; those without a consumer are skipped messages
	movers    movers
	frozen    bool // answers are refused: see Gate.Freeze
	awaited   map[Identity]awaited
	closed    error  // why it was closed; nil while it is open
	moves     uint64 // see positions.Channel
	expired   uint64 // expired messages that were not delivered
	messages  uint64 // Counts.Messages that were reported
}

// movers are operators that wait until no message is held. Nothing is delivered meanwhile. The
// channel's mutex guards them.
type movers struct {
	n       int
	settled chan struct{} // closed when no message is held; nil: no operator waits
}

// wait returns a channel that the next release closes.
func (m *movers) wait() chan struct{} {
	if m.settled == nil {
		m.settled = make(chan struct{})
	}
	return m.settled
}

func (m *movers) release() {
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
}

func newChannel(p *Partition, name string, version uint64, ephemeral bool, s *channel.State) *Channel {
	c := &Channel{p: p, name: name, version: version, ephemeral: ephemeral, state: s, recorder: s.Recorder(), times: processing.New(p.o.LatencyWindow, time.Now())}
	s.Company = c.companyLocked
	c.keys.on.Store(s.View().Order() == policy.ByKey)
	c.Flow.Observe(p.o.Now(), flow.Totals{In: s.View().Counts(p.o.Log.End()).Messages}) // what is there has not come in since
	return c
}

// Version distinguishes the channel from others of its name: a later one has a higher version. 0: it is ephemeral.
func (c *Channel) Version() uint64 { return c.version }

// Name returns the channel's name.
func (c *Channel) Name() string { return c.name }

// Ephemeral reports whether the channel is deleted with its last consumer.
func (c *Channel) Ephemeral() bool { return c.ephemeral }

// Floor returns the offset below which every message is finished.
func (c *Channel) Floor() seq.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.View().Floor()
}

// ChannelStats are a channel's statistics on one partition.
type ChannelStats struct {
	channel.Counts
	Floor  seq.Offset // everything below is finished
	Paused bool
	// ExpiredTotal counts messages that were dropped because their time to live had passed.
	ExpiredTotal uint64
	// Limited reports that consumers wait for the channel's rate.
	Limited bool
	// Blocked is the first exhausted message that stays in the channel; nil if there is none.
	Blocked *seq.Offset
	// KeyBlock is the key for which most messages wait; nil if none waits.
	KeyBlock *channel.KeyBlock
	// Latency is the distribution of times from publish to finish of recently finished messages;
	// nil if it is not kept: see Options.LatencyWindow.
	Latency *latency.Histogram
	// Suspects are the messages that are delivered one at a time, because they have failed with others.
	Suspects channel.Suspects
	// LastConsumer is the name of the consumer that left last, and LeftAt when it did; the zero time if none did.
	LastConsumer string
	LeftAt       time.Time
}

// Stats returns the channel's statistics.
func (c *Channel) Stats() ChannelStats {
	end, kept := c.p.visibleEnd(), c.times.Histogram(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ChannelStats{Latency: kept, Counts: countsLocked(c, end), Floor: c.state.View().Floor(), Paused: c.state.Paused, ExpiredTotal: c.expired, Limited: c.limited && c.limit.Load() != nil}
	s.LastConsumer, s.LeftAt = c.departed.Last()
	s.Suspects = c.state.Isolation().Suspects()
	if r := c.state.Retries(); r.Policy().OnExhausted == policy.Block {
		if o, ok := r.First(); ok {
			s.Blocked = &o
		}
	}
	if b, some := c.state.View().KeyBlock(); some {
		s.KeyBlock = &b
	}
	return s
}

// Configure sets whether the channel is paused (nothing is delivered; messages in flight can
// still be answered) and its order. It costs nothing if nothing changes, because a change of
// one channel is applied to all channels of its topic.
func (c *Channel) Configure(o ChannelOptions) {
	c.former.Store(&o.Former)
	if c.Selection.Set(o.Filter) {
		c.wakeConsumers()
	}
	c.mu.Lock()
	same := c.state.Paused == o.Paused && c.state.View().Order() == o.Order
	c.mu.Unlock()
	if same {
		return
	}
	c.change(func(s *channel.State) {
		s.Paused = o.Paused
		s.Operator().SetOrder(o.Order)
		if c.keys.on.Store(o.Order == policy.ByKey); o.Order != policy.ByKey {
			c.keys.releaseLocked()
		}
	})
}

// Seek moves the channel to an offset, forward or back: messages from there on are delivered
// (again). When it returns, that is on this node's disk; Partition.Flush waits for the other
// replicas.
func (c *Channel) Seek(o seq.Offset) error {
	o = min(max(o, c.p.o.Log.Start()), c.p.o.Log.CommittedEnd())
	return c.Operator().Move(func(s *channel.State) { s.Operator().Seek(o) })
}

// change applies an operator's change to the state and wakes all consumers.
func (c *Channel) change(f func(*channel.State)) {
	c.mu.Lock()
	f(c.state)
	for _, k := range c.consumers {
		k.recountLocked()
	}
	arm := c.armLocked()
	c.mu.Unlock()
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	c.arm(arm)
	c.wakeFor(everyone)
	c.wakeConsumers()
}

// Trim releases memory that the channel needs only while it is in use.
func (c *Channel) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Trim()
}

// armLocked reports whether ticks must be requested, and records that they were.
func (c *Channel) armLocked() bool {
	if c.armed || c.closed != nil {
		return false
	}
	_, c.armed = c.state.NextEvent()
	c.armed = c.armed || RetriesOf(c).waitsLocked() || len(c.awaited) > 0
	return c.armed
}

func (c *Channel) arm(needed bool) {
	if needed {
		c.p.o.Arm(c)
	}
}

// Tick handles everything due at now: it times out messages, makes deferred messages ready, and
// gives up FINs that other replicas have not stored in time. It reports whether further ticks are
// needed.
func (c *Channel) Tick(now time.Time) bool {
	end := c.p.visibleEnd()
	var noted []seq.Offset
	tr, lost := c.p.trace.Load(), []trace.Step(nil)
	c.mu.Lock()
	next, ok := c.state.NextEvent()
	if ok && !next.After(now) {
		c.state.Expire(now, func(id uint64, o seq.Offset) {
			c.timedOutLocked(id)
			if c.bounded.Load() {
				noted = append(noted, o)
			}
			if tr != nil {
				lost = append(lost, trace.Step{What: trace.TimedOut, Offset: o, Channel: c.name, Client: RetriesOf(c).nameLocked(id), At: now})
			}
		})
		c.p.keeper.MarkDirty()
		_, ok = c.state.NextEvent()
	}
	late := c.finishing.giveUp(c.p.o.Now(), FinTimeout, c.state.Holds())
	if len(late) > 0 && c.state.Holds().Len() == 0 {
		c.movers.release()
	}
	freed := c.releaseReservedLocked()
	c.limited = c.limited && len(c.consumers) > 0 && c.limit.Load() != nil
	c.armed = (ok || RetriesOf(c).waitsLocked() || len(c.awaited) > 0) && c.closed == nil
	overdue := len(c.awaited) > 0
	dispose := c.armed && RetriesOf(c).disposableLocked() && !c.p.Gate.suspended.Load()
	armed, ready := c.armed, 0
	if c.state.HasReady(now, end) {
		ready = int(c.state.View().Counts(end).Depth)
	}
	c.mu.Unlock()
	if len(late) > 0 {
		c.p.keeper.MarkDirty()
	}
	for _, k := range freed {
		k.wake()
	}
	for _, f := range late {
		if f.by != nil {
			f.by.unfinished(f.offset)
		}
	}
	for i := range lost {
		tr.Step(&lost[i])
	}
	if overdue {
		c.returnAwaited(func(by Identity, a awaited) bool {
			return c.p.o.Now().Sub(a.since) >= ReturnAfter || c.p.o.Gone != nil && c.p.o.Gone(by.Node)
		})
	}
	c.p.Gate.messageLeft()
	c.wakeFor(ready)
	for _, o := range noted {
		RetriesOf(c).storeAttempts(o)
	}
	if dispose {
		c.p.o.Exhausted(c)
	}
	return armed
}

// timedOutLocked returns to a consumer the capacity that a timed-out message used.
func (c *Channel) timedOutLocked(id uint64) {
	for _, k := range c.consumers {
		if k.id == id {
			k.timedOut.Add(1)
			k.recountLocked()
			k.wake()
		}
	}
}

// everyone is larger than any number of consumers.
const everyone = math.MaxInt

// wakeFor wakes as many waiting consumers as there are new messages.
func (c *Channel) wakeFor(n int) { c.notifyWaiting(n, (*Consumer).wake) }

func (c *Channel) notifyWaiting(n int, notify func(*Consumer)) {
	if c.waiters.Load() == 0 {
		return
	}
	c.mu.Lock()
	var few [4]*Consumer
	woken := c.waiting.pop(n, few[:0])
	c.waiters.Store(c.waiting.len())
	c.mu.Unlock()
	for _, k := range woken {
		notify(k)
	}
}

// wakeConsumers also wakes consumers that do not wait: they may have capacity again.
func (c *Channel) wakeConsumers() {
	c.mu.Lock()
	all := append([]*Consumer(nil), c.consumers...)
	c.mu.Unlock()
	for _, k := range all {
		k.wake()
	}
}

// Consumers returns the channel's consumers in the order in which they joined.
func (c *Channel) Consumers() []*Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Consumer(nil), c.consumers...)
}

// closeIfIdle closes the channel if it has no consumer.
func (c *Channel) closeIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil || len(c.consumers) > 0 {
		return false
	}
	c.closed = failure.ChannelNotFound
	return true
}

// Disconnect disconnects every consumer for a reason. The channel stays open.
func (c *Channel) Disconnect(reason error) {
	c.mu.Lock()
	all := append([]*Consumer(nil), c.consumers...)
	c.mu.Unlock()
	for _, k := range all {
		k.o.Ended(reason)
	}
}

// close closes the channel and notifies every consumer of the reason.
func (c *Channel) close(reason error) {
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	c.closed = reason
	c.movers.release()
	c.keys.releaseLocked()
	all := c.consumers
	c.consumers, c.waiting = nil, waitlist{}
	c.waiters.Store(0)
	c.mu.Unlock()
	for _, k := range all {
		k.o.Ended(reason)
	}
}
