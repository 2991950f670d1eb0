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
	// tellEvery is how often room is asked for while a topic is full.
	tellEvery = 100 * time.Millisecond
	// Recently is for how long a refusal says that the topic is full.
	Recently = time.Minute
)

// Disk enforces the maximum size of a topic on a node: it decides which publishes are
// refused, and when the oldest messages must be dropped. Its methods are safe for
// concurrent use. The zero Disk does not ask for room.
type Disk struct {
	full     chan<- struct{} // of capacity 1: gets a value when the oldest messages must be dropped
	told     atomic.Int64    // when it was last, ns since 1970
	refused  atomic.Uint64   // messages
	dropped  atomic.Uint64   // messages that some channel had not finished
	lastFull atomic.Int64    // when messages were refused last, ns since 1970; 0: never
}

// Tells has full be told when room is wanted. It is called before anything else.
func (d *Disk) Tells(full chan<- struct{}) { d.full = full }

// Reserve reports whether a partition that has stored bytes takes messages. Where the oldest
// messages go to make room, it does: they go within tellEvery, in files of a quarter of
// the share.
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
	d.lastFull.Store(now.UnixNano())
	return fmt.Errorf("%w: its partition holds %d bytes, limit is %d", failure.TopicFull, stored, most)
}

// tell asks for room, now and then.
func (d *Disk) tell(now time.Time) {
	last := d.told.Load()
	if d.full == nil || now.UnixNano()-last < int64(tellEvery) || !d.told.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	signal.Poke(d.full)
}

// Dropped notes that messages went which some channel had not finished.
func (d *Disk) Dropped(messages uint64) { d.dropped.Add(messages) }

// Full reports whether messages were refused not long before now.
func (d *Disk) Full(now time.Time) bool {
	last := d.lastFull.Load()
	return last != 0 && now.UnixNano()-last < int64(Recently)
}

// Counts are the messages that were refused, and those that were dropped though some channel
// had not finished them.
type Counts struct{ Refused, Dropped uint64 }

// Counts returns the figures since the topic was opened here.
func (d *Disk) Counts() Counts { return Counts{d.refused.Load(), d.dropped.Load()} }
