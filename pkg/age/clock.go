package age

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// maxPairs bounds how many pairs a Clock remembers: the newest ones.
const maxPairs = 32

// pairTolerance is how far timestamps may drift from this node's monotonic clock
// before a new pair begins, and so the maximum error of an age. It covers the
// time that a batch takes to reach an in-sync replica.
const pairTolerance = 2 * time.Second

// Clock determines the age of the batches of one replica. Its methods are safe
// for concurrent use.
type Clock struct {
	wall func(now time.Time) int64

	mu    sync.Mutex // guards pairs
	pairs []pair     // by offset, ascending
}

// pair is the reading of the wall clock of an epoch's leader at a local moment.
// It applies to the batches from an offset on, until the next pair.
type pair struct {
	from  seq.Offset
	epoch seq.Epoch
	stamp int64
	at    time.Time
}

// Batch is the part of a batch that a Clock needs.
type Batch struct {
	First     seq.Offset
	Epoch     seq.Epoch
	Timestamp int64 // ns since 1970, by the wall clock of the epoch's leader
}

// NewClock returns a clock that has seen no batch. wall returns the reading of this
// node's wall clock at a moment, in ns since 1970; nil: the moment's own, which is
// the system's clock, read together with the monotonic one.
func NewClock(wall func(now time.Time) int64) *Clock {
	if wall == nil {
		wall = System
	}
	return &Clock{wall: wall}
}

// Wall returns the reading of this node's wall clock at now, in ns since 1970.
func (c *Clock) Wall(now time.Time) int64 { return c.wall(now) }

// Appended records that the leader of the batch's epoch appended it at the
// local moment at. A follower calls it only for batches that it receives as
// they are written: for one that is copied later, at would be wrong.
func (c *Clock) Appended(b Batch, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.pairs)
	for n > 0 && c.pairs[n-1].from > b.First {
		n-- // what was appended there was truncated
	}
	c.pairs = c.pairs[:n]
	if n > 0 {
		if p := &c.pairs[n-1]; p.epoch == b.Epoch && p.age(b.Timestamp, at).Abs() <= pairTolerance {
			return
		}
	}
	if n == maxPairs {
		c.pairs = slices.Delete(c.pairs, 0, 1)
	}
	c.pairs = append(c.pairs, pair{b.First, b.Epoch, b.Timestamp, at})
}

// age returns how long before now the leader's clock showed a timestamp.
func (p *pair) age(stamp int64, now time.Time) time.Duration {
	return time.Duration(p.stamp-stamp) + now.Sub(p.at)
}

// Age returns how long before now a batch was appended. It is never negative.
func (c *Clock) Age(b Batch, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.pairs), func(i int) bool { return c.pairs[i].from > b.First }) - 1
	if i >= 0 && c.pairs[i].epoch == b.Epoch {
		return max(0, c.pairs[i].age(b.Timestamp, now))
	}
	return max(0, time.Duration(c.wall(now)-b.Timestamp))
}

// Leader returns the reading at now of the wall clock of the leader that
// appended last, in ns since 1970: that of this node's own wall clock if no
// append was recorded.
func (c *Clock) Leader(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.pairs); n > 0 {
		p := &c.pairs[n-1]
		return p.stamp + int64(now.Sub(p.at))
	}
	return c.wall(now)
}
