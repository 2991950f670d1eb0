package topic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Log is where a partition appends, and what takes its positions to the other
// replicas: the live term of its replica.
type Log interface {
	// Append takes an entry: see commitlog.Entry.
	Append(commitlog.Entry) error
	Sharer
}

// ErrChannelNotFound is returned for a channel that the partition does not have.
var ErrChannelNotFound = fate.Refuse("channel not found")

// Observer is told what happens, for statistics. Its methods must not block.
type Observer interface {
	// ObservePublish is told how long a publish took from receipt to answer.
	ObservePublish(d time.Duration, err error)
	// ObserveBatch is told how many messages were committed together.
	ObserveBatch(messages int)
	// ObserveDelivery is told how long after being appended a message is handed
	// over for the first time. Of messages that are handed over together it is
	// told of the first.
	ObserveDelivery(d time.Duration)
}

// Options describe a partition.
type Options struct {
	Index int // of the partition in its topic
	FS    vfs.FS
	Dir   string // of the replica; positions are kept there
	Log   *commitlog.Log

	Observer Observer
	// Arm asks for calls of a channel's Tick until one returns false. It is
	// called without a lock and must not block.
	Arm func(*Channel)
	// Damaged reports a damaged range that a consumer has come to. It is led
	// past it, unless Elsewhere says otherwise.
	Damaged func(*commitlog.CorruptionError)
	// Elsewhere says whether other in-sync replicas hold what is damaged here.
	// Then no consumer is led past it: the partition suspends deliveries, as
	// Suspend does, until another node leads. It must not block. nil: never.
	Elsewhere func() bool
	// PositionsDamaged reports that the newest stored positions were damaged and
	// those before them are used: what was finished since is delivered again.
	PositionsDamaged func(error)
	// Unsaved tells that there is something for Checkpoint to do, once until it was
	// called. It is called with locks held and must not block. nil: nobody is told.
	Unsaved func()
	// Leased says whether deliveries may be made and answered at a time: nobody
	// else may have been made leader by then. It must not block. nil: always.
	Leased func(now time.Time) bool
}

// marker is a flag that is mostly set already when it is set.
type marker struct {
	set  atomic.Bool
	told func() // is called each time that the flag becomes set; nil: nobody is told
}

func (f *marker) mark() {
	if !f.set.Load() && !f.set.Swap(true) && f.told != nil {
		f.told()
	}
}

// clear returns whether the flag was set.
func (f *marker) clear() bool { return f.set.Swap(false) }

// notPaused is the visible end of a topic that is not paused.
const notPaused = math.MaxUint64

// Partition serves one partition of a topic for as long as this node leads it
// in one term, from Open to Close, on the positions that it finds: its own, or
// what its Standby was told by the leader before.
type Partition struct {
	gate
	keeper

	o        Options
	out      Log           // set once by Serve, before anything is published
	pausedAt atomic.Uint64 // channels see nothing from here on; notPaused
	messages atomic.Uint64 // published, since it was opened
	bytes    atomic.Uint64 // of their bodies

	mu       sync.Mutex // guards what follows
	channels map[string]*Channel
	backlog  seq.Offset // where a first channel starts
	restored map[string]ChannelPosition
}

// Open opens a partition's positions. Channels are added by AddChannel, as the
// metadata names them; a position of a channel that nobody adds is dropped at
// the next checkpoint, and what is stored of messages beyond the log's end is
// forgotten.
func Open(o Options) (*Partition, error) {
	positions, snap, err := OpenPositions(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if snap, err = forgetBeyond(positions, snap, o.Log.End()); err != nil {
		return nil, err
	}
	p := &Partition{
		gate:     gate{leased: o.Leased, stirred: make(chan struct{}, 1)},
		keeper:   keeper{log: o.Log, positions: positions, dirty: marker{told: o.Unsaved}},
		o:        o,
		backlog:  snap.BacklogFrom,
		channels: map[string]*Channel{}, restored: map[string]ChannelPosition{},
	}
	p.keeper.snapshot, p.keeper.united = p.current, p.Wake
	p.pausedAt.Store(notPaused)
	if snap.PausedAt != nil {
		p.pausedAt.Store(uint64(*snap.PausedAt))
	}
	for _, c := range snap.Channels {
		p.restored[c.Name] = c
	}
	if err := positions.Damage(); err != nil {
		o.PositionsDamaged(err)
	}
	p.list.Store(listOf(nil))
	return p, nil
}

// forgetBeyond returns what a snapshot says of messages below the log's end. What
// it says beyond is off the disk then: other messages come to these offsets, and a
// process that is killed must not find them finished.
func forgetBeyond(positions *Positions, snap Snapshot, end seq.Offset) (Snapshot, error) {
	if !snap.reaches(end) {
		return snap, nil
	}
	snap = snap.below(end)
	if err := errors.Join(positions.Begin(), positions.Save(snap)); err != nil {
		return snap, fmt.Errorf("forget positions beyond the log's end: %w", err)
	}
	return snap, nil
}

// Serve gives the partition the term that it appends to, and the other replicas
// the positions. It is called once, before anything is published or asked for.
func (p *Partition) Serve(out Log) {
	p.out = out
	p.serve(out)
}

// Index returns the partition's number in its topic.
func (p *Partition) Index() int { return p.o.Index }

// Log returns the partition's log.
func (p *Partition) Log() *commitlog.Log { return p.o.Log }

// visibleEnd is one past the last message that channels may see.
func (p *Partition) visibleEnd() seq.Offset {
	return min(p.o.Log.CommittedEnd(), seq.Offset(p.pausedAt.Load()))
}

// AddChannel makes sure that the partition has a channel. version tells it from
// an earlier channel of the name, whose position does not count. The first
// channel starts with what no channel has seen, a later one at the committed
// end. When AddChannel returns, the start of a durable channel is on disk.
func (p *Partition) AddChannel(name string, version uint64, o ChannelOptions) (*Channel, error) {
	p.mu.Lock()
	if c := p.channels[name]; c != nil && c.version == version {
		p.mu.Unlock()
		c.Configure(o)
		return c, p.storeStart(c)
	}
	var state *channel.State
	old, known := p.restored[name]
	known = known && old.Version == version
	delete(p.restored, name)
	switch {
	case known:
		state = channel.Restore(old.Position, o.Ordered)
		state.AdvanceTo(p.o.Log.Start())
	case len(p.channels) == 0:
		state = channel.New(max(p.backlog, p.o.Log.Start()), o.Ordered)
	default:
		state = channel.New(p.o.Log.CommittedEnd(), o.Ordered)
	}
	state.SetPaused(o.Paused)
	c := newChannel(p, name, version, o.Ephemeral, state)
	before := p.channels[name]
	p.channels[name] = c
	p.list.Store(listOf(p.channels))
	p.mu.Unlock()
	if before != nil {
		before.close(ErrChannelNotFound)
	}
	p.dirty.mark()
	c.stored.Store(known || o.Ephemeral)
	return c, p.storeStart(c)
}

// storeStart sees to it that the place where a channel starts is on disk.
func (p *Partition) storeStart(c *Channel) error {
	if c.stored.Load() {
		return nil
	}
	p.dirty.mark()
	if _, err := p.store(); err != nil {
		return fmt.Errorf("channel %q: its start could not be stored: %w", c.name, err)
	}
	c.stored.Store(true)
	return nil
}

// Channel returns a channel of the partition, or nil.
func (p *Partition) Channel(name string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channels[name]
}

// RemoveChannel ends a channel and its consumers' subscriptions.
func (p *Partition) RemoveChannel(name string) error {
	c := p.Channel(name)
	if c == nil {
		return ErrChannelNotFound
	}
	c.close(ErrChannelNotFound)
	return p.forget(c)
}

// RemoveAbandoned ends a channel that has no consumer, and does nothing to one
// that has. It returns whether the channel is gone.
func (p *Partition) RemoveAbandoned(name string) (bool, error) {
	c := p.Channel(name)
	if c == nil || !c.closeIfIdle() {
		return c == nil, nil
	}
	return true, p.forget(c)
}

// forget takes a closed channel out of the partition.
func (p *Partition) forget(c *Channel) error {
	p.mu.Lock()
	if p.channels[c.name] == c {
		delete(p.channels, c.name)
		delete(p.restored, c.name)
		if len(p.channels) == 0 {
			p.backlog = p.visibleEnd()
		}
		p.list.Store(listOf(p.channels))
	}
	p.mu.Unlock()
	p.dirty.mark()
	return p.Checkpoint()
}

func listOf(channels map[string]*Channel) *[]*Channel {
	l := slices.Collect(maps.Values(channels))
	return &l
}

// SetPaused stops channels from seeing messages published from now on, or lets
// them see all again. Setting what is set changes nothing.
func (p *Partition) SetPaused(paused bool) {
	was := p.pausedAt.Load() != notPaused
	switch {
	case paused == was:
		return
	case paused:
		p.pausedAt.Store(uint64(p.o.Log.CommittedEnd()))
	default:
		p.pausedAt.Store(notPaused)
	}
	p.dirty.mark()
	for _, c := range p.Channels() {
		c.wakeFor(everyone)
	}
}

// PartitionCounts are a partition's figures.
type PartitionCounts struct {
	Messages uint64 // published since the partition was opened
	Bytes    uint64 // of their bodies
	// Pending is the number of messages that no channel has got yet: those kept
	// back by a pause, or all since the last channel went.
	Pending int64
}

// Counts returns the partition's figures.
func (p *Partition) Counts() PartitionCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.visibleEnd()
	if len(p.channels) == 0 {
		from = max(p.backlog, p.o.Log.Start())
	}
	return PartitionCounts{p.messages.Load(), p.bytes.Load(), int64(p.o.Log.CommittedEnd()) - int64(from)}
}

// Empty drops the messages that no channel has got yet.
func (p *Partition) Empty() error {
	end := p.o.Log.CommittedEnd()
	p.mu.Lock()
	if len(p.channels) == 0 {
		p.backlog = end
	}
	p.mu.Unlock()
	if from := p.pausedAt.Load(); from != notPaused {
		for _, c := range p.Channels() {
			c.change(func(s *channel.State) { s.Skip(seq.Offset(from), end) })
		}
		p.pausedAt.Store(uint64(end))
	}
	p.dirty.mark()
	return p.Checkpoint()
}

// Committed tells the partition that a batch is committed: see
// coord.TermOptions. With the zero Batch, it is told that some were that an
// earlier term appended.
func (p *Partition) Committed(b commitlog.Batch) {
	if b.Size() == 0 {
		for _, c := range p.Channels() {
			c.wakeFor(everyone)
		}
		return
	}
	p.o.Observer.ObserveBatch(b.Count())
	channels := p.Channels()
	if b.Attributes()&attrDeferred != 0 && len(channels) > 0 {
		p.deferLate(b, channels)
	}
	for _, c := range channels {
		c.wakeFor(b.Count())
	}
}

// deferLate tells the channels of the messages in a batch that are not due.
func (p *Partition) deferLate(b commitlog.Batch, channels []*Channel) {
	records := b.Records(b.First())
	for {
		o, raw, ok := records.Next()
		if !ok {
			return
		}
		m, err := decodeRecord(raw)
		if err != nil || m.DeliverAt.IsZero() {
			continue // what cannot be read is met again when it is delivered
		}
		for _, c := range channels {
			c.deferUntil(o, m.DeliverAt)
		}
	}
}

// current returns the positions as they are.
func (p *Partition) current() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{BacklogFrom: p.backlog}
	if at := p.pausedAt.Load(); at != notPaused {
		o := seq.Offset(at)
		s.PausedAt = &o
	}
	seen := seq.Offset(math.MaxUint64)
	for _, c := range p.channels {
		pos := c.position()
		seen = min(seen, pos.Floor)
		if !c.ephemeral {
			s.Channels = append(s.Channels, ChannelPosition{Name: c.name, Version: c.version, Position: pos})
		}
	}
	for _, c := range p.restored {
		s.Channels = append(s.Channels, c)
	}
	slices.SortFunc(s.Channels, func(a, b ChannelPosition) int { return compareNames(a.Name, b.Name) })
	if len(s.Channels) == 0 && len(p.channels) > 0 {
		// only ephemeral channels: after a restart the next first channel
		// goes on where they were
		s.BacklogFrom = max(s.BacklogFrom, seen)
	}
	return s
}

// Settled says that the metadata has named all its channels: positions that
// were stored and not asked for are of channels that are gone.
func (p *Partition) Settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.restored) > 0 {
		p.restored = map[string]ChannelPosition{}
		p.dirty.mark()
	}
}

// Floor returns the offset below which no channel needs a message any more.
func (p *Partition) Floor() seq.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.restored) > 0 {
		return p.o.Log.Start()
	}
	if len(p.channels) == 0 {
		return max(p.backlog, p.o.Log.Start())
	}
	floor := seq.Offset(math.MaxUint64)
	for _, c := range p.channels {
		floor = min(floor, c.Floor())
	}
	return floor
}

// Retain drops whole segments that are finished with and older than maxAge, and
// as many more as exceed maxBytes (0: no limit), finished or not. The last one
// goes only if last says so.
func (p *Partition) Retain(now time.Time, maxAge time.Duration, maxBytes int64, last bool) error {
	before := p.o.Log.Start()
	_, err := p.o.Log.Retain(commitlog.Retention{Floor: p.Floor(), Now: now, MaxAge: maxAge, MaxBytes: maxBytes, Last: last})
	if start := p.o.Log.Start(); start > before {
		for _, c := range p.Channels() {
			c.change(func(s *channel.State) { s.AdvanceTo(start) })
		}
	}
	return err
}

// Close ends every subscription and stores the positions, which is the last
// thing that the partition writes; nothing is shared. The log and the term are
// their owner's; the term has ended.
func (p *Partition) Close(reason error) error {
	for _, c := range p.Channels() {
		c.close(reason)
	}
	return p.keeper.close()
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
