package topic

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/trace"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Log appends a partition's entries and replicates its positions: the live term of its replica.
type Log interface {
	// Append accepts an entry: see commitlog.Entry.
	Append(commitlog.Entry) error
	sharing.Sharer
}

// Observer receives statistics. Its methods must not block.
type Observer interface {
	// ObservePublish reports the duration of a publish from receipt to answer.
	ObservePublish(d time.Duration, err error)
	// ObserveBatch reports the number of messages of a group commit.
	ObserveBatch(messages int)
	// ObserveDelivery reports the time from append to first delivery, for the first of the
	// messages delivered together.
	ObserveDelivery(d time.Duration)
	// ObserveFinish reports the time from the last delivery to the finish and the number of
	// deliveries, for one message of a consumer at a time.
	ObserveFinish(d time.Duration, attempts int)
}

// Options describe a partition.
type Options struct {
	Index int // of the partition in its topic
	FS    vfs.FS
	Dir   string // of the replica; positions are stored there
	Log   *commitlog.Log

	Observer Observer
	// Arm requests calls of a channel's Tick until one returns false. It is called without a lock
	// and must not block.
	Arm func(*Channel)
	// Damaged reports a damaged range reached by a consumer. The consumer skips it unless
	// Elsewhere says otherwise.
	Damaged func(*commitlog.CorruptionError)
	// Elsewhere reports whether other replicas may hold a damaged range. If so, no consumer skips
	// it: the partition suspends deliveries, and calls Damaged, whose owner resumes them. It must
	// not block. nil: never.
	Elsewhere func(*commitlog.CorruptionError) bool
	// PositionsDamaged reports that stored positions were damaged. lost: none was
	// intact, and every channel starts at the log's start. Otherwise an older
	// snapshot is used. Either way, finished messages are delivered again and none
	// is skipped.
	PositionsDamaged func(err error, lost bool)
	// Salvage makes Open succeed if positions were stored and none is intact. The damaged files are
	// kept under other names.
	Salvage bool
	// Unsaved, if set, signals that Checkpoint has work to do, once until it is called. It is
	// called with locks held and must not block.
	Unsaved func()
	// Exhausted, if set, signals that a channel has messages that used up their attempts, for a
	// Disposer. It is called repeatedly until there are none. It must not block. nil: the
	// messages stay.
	Exhausted func(*Channel)
	// Leased reports whether messages may be delivered and answered at a time, because no other
	// leader can have been elected by then. It must not block. nil: always.
	Leased func(now time.Time) bool
	// InFlight are the messages in flight that the previous leader has transferred; nil: none.
	InFlight *InFlight
	// Gone reports that a node is down or stopping, so that its subscriptions will not join. nil: none is.
	Gone func(node string) bool
	// Ages returns the age of the log's batches; nil uses this node's wall clock.
	Ages *age.Clock
	// Now reads the clock that delays run on; nil: time.Now.
	Now func() time.Time
	// LatencyWindow is the window of the channels' latencies from publish to finish; 0 disables
	// them.
	LatencyWindow time.Duration
	// Moves selects the messages to append again.
	Moves MovePolicy
	// Trace records the events of traced messages.
	Trace trace.Source
}

func (o Options) withDefaults() Options {
	if o.Ages == nil {
		o.Ages = age.NewClock(nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// notPaused is the visible end of a topic that is not paused.
const notPaused = math.MaxUint64

// Partition serves one partition of a topic during one term of this node, from Open to Close,
// starting from the stored positions: its own, or those received by its Standby from the
// previous leader.
type Partition struct {
	// Gate controls deliveries and answers.
	Gate Gate

	o        Options
	keeper   *positions.Keeper
	out      Log           // set once by Serve, before anything is published
	pausedAt atomic.Uint64 // channels see nothing from here on; or notPaused
	messages atomic.Uint64 // published since it was opened
	bytes    atomic.Uint64 // of their bodies
	load     load
	ttl      atomic.Int64 // default time to live of messages in ns; 0: unlimited
	mover    mover
	trace    atomic.Pointer[trace.Partition] // nil: no message is traced

	mu        sync.Mutex // guards what follows
	channels  map[string]*Channel
	backlog   seq.Offset // where a first channel starts
	collector collector
	restored  map[string]positions.Channel
	lost      bool // channels missing from restored start at the log's start
	arrivals  arrivals
}

// Open opens a partition's positions. AddChannel adds the channels named by the metadata;
// positions of other channels are dropped at the next checkpoint, and positions beyond the
// log's end are discarded. If positions were stored and none is intact, the error is marked
// fate.Corrupt unless Options.Salvage is set.
func Open(o Options) (*Partition, error) {
	o = o.withDefaults()
	p := &Partition{
		Gate:     Gate{leased: o.Leased, left: make(chan struct{}, 1)},
		o:        o,
		channels: map[string]*Channel{}, restored: map[string]positions.Channel{},
	}
	keeper, snap, err := positions.OpenKeeper(positions.KeeperOptions{
		FS: o.FS, Dir: o.Dir, End: o.Log.End(), Source: &p.collector, Damaged: o.PositionsDamaged, Salvage: o.Salvage,
		Unsaved: o.Unsaved, United: p.Gate.Wake,
	})
	if err != nil {
		return nil, err
	}
	p.keeper, p.load = keeper, newLoad(&o)
	p.backlog, p.lost, p.arrivals.since = snap.BacklogFrom, snap.Lost, snap.Addressed
	p.arrivals.notified.Store(uint64(o.Log.CommittedEnd()))
	p.mover.begin(p)
	p.collector = collector{p: p, many: manyEntries}
	p.pausedAt.Store(notPaused)
	if snap.PausedAt != nil {
		p.pausedAt.Store(uint64(*snap.PausedAt))
	}
	for _, c := range snap.Channels {
		p.restored[c.Name] = c
	}
	p.Gate.list.Store(listOf(nil))
	return p, nil
}

// Serve gives the partition the term that it appends to, and sends the positions to the other
// replicas. It is called once, before anything is published or requested.
func (p *Partition) Serve(out Log) {
	p.out = out
	p.arrivals.inherit(p)
	p.keeper.Serve(out)
}

// Checkpoint stores the positions if any changed since the last call, and shares them without
// waiting for the other replicas. After an error the previously stored version is intact and the
// next call retries.
func (p *Partition) Checkpoint() error { return p.keeper.Checkpoint() }

// Flush stores and shares the current positions and returns once every in-sync replica has
// them. Concurrent calls share one snapshot. After an error not marked fate.Refused it is
// unknown which replicas have them.
func (p *Partition) Flush(ctx context.Context) error { return p.keeper.Flush(ctx) }

// Log returns the partition's log.
func (p *Partition) Log() *commitlog.Log { return p.o.Log }

// visibleEnd is one past the last message that channels may see.
func (p *Partition) visibleEnd() seq.Offset {
	return min(seq.Offset(p.arrivals.notified.Load()), seq.Offset(p.pausedAt.Load()))
}

// AddChannel adds a channel if it is missing. version distinguishes it from an earlier channel of
// the name, whose position does not count. The first channel starts with the messages that no
// channel has received, later ones at the committed end; until ChannelsComplete, one whose
// position was lost starts at the log's start. When AddChannel returns, the start of a durable
// channel is on disk.
func (p *Partition) AddChannel(name string, version uint64, o ChannelOptions) (*Channel, error) {
	p.mu.Lock()
	if c := p.channels[name]; c != nil && c.version == version {
		p.mu.Unlock()
		c.Configure(o)
		return c, p.storeStart(c)
	}
	var state *channel.State
	var inherited map[Identity]awaited
	old, known := p.restored[name]
	known = known && old.Version == version
	first := true
	for _, c := range p.channels {
		first = first && o.First && !c.ephemeral // the others were deleted before
	}
	switch {
	case known:
		now := p.o.Now()
		state = channel.Restore(old.Position, o.Order == policy.Strict, now, p.load.wallAt(now))
		state.AdvanceTo(p.o.Log.Start())
		inherited = p.o.InFlight.inherit(state, name, version, now)
	case p.lost:
		state = channel.New(p.o.Log.Start(), false)
	case first:
		state = channel.New(unreceivedLocked(p), false)
	default:
		state = channel.New(p.o.Log.CommittedEnd(), false)
	}
	delete(p.restored, name)
	state.Operator().SetOrder(o.Order)
	state.Paused = o.Paused
	c := newChannel(p, name, version, o.Ephemeral, state)
	c.awaited, c.lastID = inherited, uint64(len(inherited))
	c.former.Store(&o.Former)
	c.Selection.Set(o.Filter)
	if known {
		c.moves = old.Moves
	}
	arm := p.arrivals.notifyNew(c)
	if len(inherited) > 0 {
		c.mu.Lock()
		arm = c.armLocked() || arm
		c.mu.Unlock()
	}
	before := p.channels[name]
	p.channels[name] = c
	p.Gate.list.Store(listOf(p.channels))
	p.mu.Unlock()
	if before != nil {
		before.close(failure.ChannelNotFound)
	}
	c.arm(arm)
	p.keeper.MarkDirty()
	c.stored.Store(known || o.Ephemeral)
	return c, p.storeStart(c)
}

// storeStart ensures that the start of a channel is on disk.
func (p *Partition) storeStart(c *Channel) error {
	if c.stored.Load() {
		return nil
	}
	p.keeper.MarkDirty()
	if err := p.keeper.Store(); err != nil {
		return fmt.Errorf("channel %q: store its start: %w", c.name, err)
	}
	c.stored.Store(true)
	return nil
}

// Channels returns the channels. The slice is shared and must not be changed.
func (p *Partition) Channels() []*Channel { return p.Gate.channels() }

// Channel returns a channel of the partition, or nil.
func (p *Partition) Channel(name string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channels[name]
}

// RemoveChannel closes a channel and ends its consumers' subscriptions.
func (p *Partition) RemoveChannel(name string) error {
	p.mu.Lock()
	c := p.channels[name]
	if c != nil {
		p.forgetLocked(c)
	}
	p.mu.Unlock()
	if c == nil {
		return failure.ChannelNotFound
	}
	c.close(failure.ChannelNotFound)
	return p.Checkpoint()
}

// RemoveAbandoned removes a channel without consumers; one with consumers is kept. It reports
// whether the channel was removed. It can be added again as soon as it is closed.
func (p *Partition) RemoveAbandoned(name string) (bool, error) {
	p.mu.Lock()
	c := p.channels[name]
	gone := c == nil || c.closeIfIdle()
	if c != nil && gone {
		p.forgetLocked(c)
	}
	p.mu.Unlock()
	if c == nil || !gone {
		return gone, nil
	}
	return true, p.Checkpoint()
}

// forgetLocked removes a channel from the partition.
func (p *Partition) forgetLocked(c *Channel) {
	delete(p.channels, c.name)
	delete(p.restored, c.name)
	if len(p.channels) == 0 {
		p.backlog = p.visibleEnd()
	}
	p.Gate.list.Store(listOf(p.channels))
	p.keeper.MarkDirty()
}

func listOf(channels map[string]*Channel) *[]*Channel {
	return new(slices.Collect(maps.Values(channels)))
}

// Settings are what a partition applies of the metadata of its topic.
type Settings struct {
	Paused bool          // messages published from now on are hidden from the channels
	TTL    time.Duration // default time to live of messages; 0: unlimited
	Trace  string        // which messages are traced, in the form of sampling.ParseRule
}

// Configure applies settings. Unchanged ones cost nothing.
func (p *Partition) Configure(s Settings) {
	p.ttl.Store(int64(s.TTL))
	// If a newer program accepted a rule that this one cannot read, the current one is kept.
	if r, err := sampling.ParseRule(s.Trace); err == nil {
		if now := p.trace.Load(); now == nil || now.Rule() != r.String() {
			p.trace.Store(p.o.Trace.Under(r))
		}
	}
	was := p.pausedAt.Load() != notPaused
	switch {
	case s.Paused == was:
		return
	case s.Paused:
		p.pausedAt.Store(uint64(p.o.Log.CommittedEnd()))
	default:
		p.pausedAt.Store(notPaused)
	}
	p.keeper.MarkDirty()
	for _, c := range p.Channels() {
		c.wakeFor(everyone)
	}
}

// PartitionCounts are a partition's statistics.
type PartitionCounts struct {
	Messages uint64 // published since the partition was opened
	Bytes    uint64 // of their bodies
	// Pending is the number of messages that no channel has received yet: those withheld by a
	// pause, or all since the last channel was deleted.
	Pending int64
}

// Counts returns the partition's statistics.
func (p *Partition) Counts() PartitionCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.visibleEnd()
	if len(p.channels) == 0 {
		from = max(p.backlog, p.o.Log.Start())
	}
	return PartitionCounts{p.messages.Load(), p.bytes.Load(), int64(p.o.Log.CommittedEnd()) - int64(from)}
}

// Empty drops the messages that no channel has received yet.
func (p *Partition) Empty() error {
	end := p.o.Log.CommittedEnd()
	p.mu.Lock()
	if len(p.channels) == 0 {
		p.backlog = end
	}
	p.mu.Unlock()
	if from := p.pausedAt.Load(); from != notPaused {
		for _, c := range p.Channels() {
			c.change(func(s *channel.State) { s.Operator().Skip(seq.Offset(from), end) })
		}
		p.pausedAt.Store(uint64(end))
	}
	p.keeper.MarkDirty()
	return p.Checkpoint()
}

// Committed reports that a batch is committed: see coord.TermOptions. A zero Batch means:
// entries inherited from an earlier term are now committed.
func (p *Partition) Committed(b commitlog.Batch) {
	if b.Size() == 0 {
		p.arrivals.inherited(p)
		if tr := p.trace.Load(); tr != nil {
			tr.Committed(p.load.done, int(p.load.end-p.load.done), p.o.Now()) //nolint:gosec // not below it
		}
		for _, c := range p.Channels() {
			c.wakeFor(everyone)
		}
		return
	}
	p.o.Observer.ObserveBatch(b.Count())
	if tr := p.trace.Load(); tr != nil {
		tr.Committed(b.First(), b.Count(), p.o.Now())
	}
	channels := p.Channels()
	if b.Attributes()&attrDeferred != 0 && len(channels) > 0 {
		p.deferLate(b, channels)
		p.keeper.MarkDirty()
		p.Gate.messageLeft()
	}
	if b.Attributes()&attrAddressed != 0 {
		p.arrivals.arrived(p, b)
	}
	p.arrivals.passed(b, p.keeper)
	for _, c := range channels {
		c.wakeFor(b.Count())
	}
}

// deferLate notifies the channels of the messages in a batch that are not due.
func (p *Partition) deferLate(b commitlog.Batch, channels []*Channel) {
	now := p.o.Now()
	records := b.Records(b.First())
	for {
		o, raw, ok := records.Next()
		if !ok {
			return
		}
		m, err := record.Decode(raw)
		if err != nil || m.Delay == 0 || m.Address != nil {
			continue // unreadable messages are handled at their delivery
		}
		rest := p.rest(b, o, m.Delay, now)
		if rest == 0 {
			continue
		}
		if tr := p.trace.Load(); tr != nil {
			tr.Step(&trace.Step{What: trace.Deferred, Offset: o, Delay: rest, At: now})
		}
		late := arrival{offset: o, due: now.Add(rest)}
		for _, c := range channels {
			c.arm(late.notify(c, now, false))
		}
	}
}

// ChannelsComplete reports that the metadata has named all channels of the partition: stored
// positions of other channels belong to deleted ones.
func (p *Partition) ChannelsComplete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.restored) > 0 || p.lost {
		if len(p.channels) == 0 && !p.lost {
			p.backlog = unreceivedLocked(p)
		}
		p.restored, p.lost = map[string]positions.Channel{}, false
		p.keeper.MarkDirty()
	}
	if p.arrivals.complete() {
		p.keeper.MarkDirty()
	}
}

// Floor returns the offset below which no channel needs a message any more.
func (p *Partition) Floor() seq.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.restored) > 0 || p.lost {
		return p.o.Log.Start()
	}
	return unreceivedLocked(p)
}

// unreceivedLocked returns the first message that a channel has not finished, or without channels that none
// received. For the first channel, others are deleted ones, and some of their messages may be from after that.
func unreceivedLocked(p *Partition) seq.Offset {
	from := seq.Offset(math.MaxUint64)
	if len(p.channels)+len(p.restored) == 0 {
		from = p.backlog
	}
	for _, c := range p.channels {
		from = min(from, c.Floor())
	}
	for _, c := range p.restored {
		from = min(from, c.Position.Floor)
	}
	return max(from, p.o.Log.Start())
}

// Retain deletes whole segments that are finished and old enough, and further ones above the
// requested size, finished or not. The floor is the partition's.
func (p *Partition) Retain(r commitlog.Retention) error {
	before := p.o.Log.Start()
	r.Floor = p.Floor()
	_, err := p.o.Log.Retain(r)
	if start := p.o.Log.Start(); start > before {
		for _, c := range p.Channels() {
			c.change(func(s *channel.State) { s.AdvanceTo(start) })
		}
	}
	p.mover.carry(r)
	return err
}

// Close ends every subscription and stores the positions, which is the last write of the partition.
// Nothing is shared. The log and the term belong to their owner; the term has ended.
func (p *Partition) Close(reason error) error {
	for _, c := range p.Channels() {
		c.close(reason)
	}
	p.mover.queue.Close()
	return p.keeper.Close()
}
