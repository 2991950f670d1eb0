package topic

import (
	"errors"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/reading"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyScanMax is how many messages are read together for their keys.
const keyScanMax = 256

// keyScan reads the keys of messages in the log, for a channel that orders by them, ahead of its
// consumers. One goroutine at a time reads.
type keyScan struct {
	on      atomic.Bool   // the channel orders by key
	reading bool          // guarded by the channel's lock
	read    *reading.Keys // used by the reader; nil: nothing was read yet
}

// unknownLocked returns the range of messages whose keys are to be read next, if fewer than wanted
// are deliverable; some is false if there is none. c is the channel, whose lock is held.
func (x *keyScan) unknownLocked(c *Channel, wanted int) (from, end seq.Offset, some bool) {
	if c.closed != nil || c.p.Gate.suspended.Load() || c.movers.n > 0 || c.state.Paused {
		return 0, 0, false // the caller that changes that wakes all consumers
	}
	end = c.p.visibleEnd()
	from, some = c.state.Keyed().Unknown(wanted, end)
	return from, end, some
}

// unreadLocked reports whether keys must be read before anything can be delivered, and no goroutine
// reads them. A reader wakes waiting consumers.
func (x *keyScan) unreadLocked(c *Channel) bool {
	if !x.on.Load() || x.reading {
		return false
	}
	_, _, some := x.unknownLocked(c, 1)
	return some
}

// learn reads keys for the channel: of the next messages if fewer than wanted are deliverable, and
// of further ones while there is none, up to most windows. Ready messages do not wait for all that.
// A consumer that wants none only asks whether there is something: unread keys would otherwise wake
// it again at once, forever. learn wakes consumers for what it finds, and returns how many windows
// it read. For a channel that does not order by key it only checks one flag.
func (x *keyScan) learn(k *Consumer, wanted, most int) (windows int, err error) {
	if !x.on.Load() {
		return 0, nil
	}
	wanted = max(wanted, 1)
	for c := k.ch; windows < most; windows++ {
		c.mu.Lock()
		from, end, some := x.unknownLocked(c, wanted)
		if !some || x.reading {
			if from >= end {
				x.releaseLocked()
			}
			c.mu.Unlock()
			return windows, nil
		}
		x.reading = true
		c.mu.Unlock()
		if x.read == nil {
			x.read = reading.NewKeys(c.p.o.Log)
		}
		err = x.read.Read(from, min(end, from+keyScanMax), func(d *commitlog.CorruptionError) bool { return intactElsewhere(c.p, d) })
		c.mu.Lock()
		x.reading = false
		n := x.read.Len()
		for i := range n {
			c.state.Keyed().Learn(from+seq.Offset(i), x.read.Of(i)) //nolint:gosec // a window
		}
		if c.closed != nil || !x.on.Load() {
			x.releaseLocked()
		}
		c.mu.Unlock()
		c.wakeFor(n)
		var damaged *commitlog.CorruptionError
		switch {
		case errors.As(err, &damaged):
			if n == 0 { // nothing before it can be delivered
				c.p.Gate.Suspend()
				c.p.o.Damaged(damaged)
			}
		case errors.Is(err, failure.NoMemory):
			return windows, nil // it has waited, and retries
		case err != nil:
			return windows, err
		}
		wanted = 1
	}
	return windows, nil
}

// releaseLocked ends the reading of keys. Every reader calls it.
func (x *keyScan) releaseLocked() {
	if !x.reading && x.read != nil {
		x.read.Release()
	}
}

// intactElsewhere reports whether other replicas may hold the part that is damaged here.
func intactElsewhere(p *Partition, d *commitlog.CorruptionError) bool {
	return p.o.Elsewhere != nil && p.o.Elsewhere(d)
}

// leaveOutLocked finishes taken messages that the consumer's filter skipped, or that have expired.
// In a channel that confirms finishes, these are confirmed as well, without a consumer: another
// consumer may choose the message, and by another leader's clock it may not have expired. It
// returns the finishes to be sent to the other replicas now.
func leaveOutLocked(k *Consumer, left []seq.Offset) finishes {
	c, now := k.ch, k.ch.p.o.Now()
	for _, o := range left {
		if !c.ephemeral && c.state.Keyed().MayHaveKey(o) && c.state.Holds().Skip(o, k.id) == nil {
			c.finishing.add(o, nil, now)
		} else {
			c.state.Drop(o)
		}
	}
	return nextLocked(c)
}
