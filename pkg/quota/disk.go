package quota

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

const (
	// tellEvery is the shortest time between two requests to drop messages of a
	// full topic.
	tellEvery = 100 * time.Millisecond
	// Recently is how long after a refusal the topic counts as full, and how long after unfinished
	// messages were dropped it counts as dropping them.
	Recently = time.Minute
)

// Disk enforces the maximum size of a topic on a node: it decides which publishes are refused, and
// when the oldest messages must be dropped. Its methods are safe for concurrent use. The zero Disk
// never requests space.
type Disk struct {
	full     chan<- struct{} // of capacity 1: gets a value when the oldest messages must be dropped
	told     atomic.Int64    // when full last got a value, ns since 1970
	refused  atomic.Uint64   // messages
	dropped  atomic.Uint64   // messages that some channel had not finished
	lastFull atomic.Int64    // when messages were refused last, ns since 1970; 0: never
	lastSize atomic.Int64    // bytes that those would have taken
	since    atomic.Int64    // when messages were refused first, with less than Recently between refusals
	lastDrop atomic.Int64    // when some of dropped were dropped last, ns since 1970; 0: never
}

// Tells sets the channel that gets a value when the oldest messages must be
// dropped. Call it before any other method.
func (d *Disk) Tells(full chan<- struct{}) { d.full = full }

// Reserve refuses messages that do not fit into a partition with the given stored bytes. If the
// topic drops its oldest messages instead, it accepts them: whole segments, of a quarter of the
// share, are dropped within tellEvery.
func (d *Disk) Reserve(c *meta.TopicConfig, stored int64, messages []topic.Message) error {
	most := c.Quota()
	if most == 0 {
		return nil
	}
	after := stored + int64(topic.StoredSize(messages))
	if after <= most {
		return nil
	}
	now := time.Now()
	d.tell(now)
	if c.OnFull == meta.OnFullDrop {
		return nil
	}
	d.refused.Add(uint64(len(messages)))
	if !d.Full(now) {
		d.since.Store(now.UnixNano())
	}
	d.lastFull.Store(now.UnixNano())
	d.lastSize.Store(after - stored)
	return fmt.Errorf("%w: its partition holds %d bytes, limit is %d", failure.TopicFull, stored, most)
}

// Excess requests that messages are dropped, because the log of a partition is larger than the size to which it is
// reduced. It does not block. Nothing limits how often, because the log calls it once for each of its files.
func (d *Disk) Excess() { signal.Poke(d.full) }

// Bounds returns the size to which a partition's log is reduced, and the size that it must not
// exceed; 0 if there is none.
func Bounds(c *meta.TopicConfig) (limit, share int64) {
	limit, share = c.RetentionBytes, c.Quota()
	if drops := share > 0 && c.OnFull == meta.OnFullDrop; drops && (limit == 0 || limit > share) {
		limit = share
	}
	return limit, share
}

// NearlyFull reports whether a partition uses nine tenths of its share of max-bytes or more, or has no room for a publish
// of a size, such as the last one that was refused: a batch may be larger than a tenth. A share of 0 is none.
func NearlyFull(bytes, share, size int64) bool {
	return share > 0 && (bytes >= share/10*9 || bytes+size > share)
}

// tell requests that messages are dropped, at most every tellEvery.
func (d *Disk) tell(now time.Time) {
	last := d.told.Load()
	if d.full == nil || now.UnixNano()-last < int64(tellEvery) || !d.told.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	signal.Poke(d.full)
}

// Dropped counts dropped messages that some channel had not finished. It reports whether they are
// the first ones in a while.
func (d *Disk) Dropped(messages uint64, now time.Time) bool {
	first := !d.Dropping(now)
	d.dropped.Add(messages)
	d.lastDrop.Store(now.UnixNano())
	return first
}

// Dropping reports whether messages were recently dropped that some channel had not finished.
func (d *Disk) Dropping(now time.Time) bool { return recent(d.lastDrop.Load(), now) }

// recent reports whether a time, in ns since 1970 and 0 for never, is at most Recently ago.
func recent(at int64, now time.Time) bool { return at != 0 && now.UnixNano()-at < int64(Recently) }

// Full reports whether messages were refused recently.
func (d *Disk) Full(now time.Time) bool {
	return recent(d.lastFull.Load(), now)
}

// FullSince returns from when on the topic counts as full; the zero time if it does not.
func (d *Disk) FullSince(now time.Time) time.Time {
	if !d.Full(now) {
		return time.Time{}
	}
	return time.Unix(0, d.since.Load())
}

// RefusedSize returns how many bytes the publish would have taken that was refused last; 0 if none was recently.
func (d *Disk) RefusedSize(now time.Time) int64 {
	if !d.Full(now) {
		return 0
	}
	return d.lastSize.Load()
}

// Counts are the numbers of refused messages, and of messages dropped before every channel
// had finished them.
type Counts struct{ Refused, Dropped uint64 }

// Counts returns the counts since the topic was opened on this node.
func (d *Disk) Counts() Counts { return Counts{d.refused.Load(), d.dropped.Load()} }
