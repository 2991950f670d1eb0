package topic

import (
	"errors"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/reading"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyScanMax is how many messages are looked at together for their keys.
const keyScanMax = 256

// keyScan reads the keys of messages in the log, for a channel that orders by them, ahead of what
// its consumers take. One of these reads at a time.
type keyScan struct {
	on      atomic.Bool   // the channel orders by key
	reading bool          // guarded by the channel's lock
	read    *reading.Keys // of who reads; nil: nothing was read yet
}

// unknownLocked returns which messages' keys are to be read next, if fewer than some may go. c is the channel,
// whose lock is held.
func (x *keyScan) unknownLocked(c *Channel, wanted int) (from, end seq.Offset, some bool) {
	if c.closed != nil || c.p.suspended.Load() || c.movers.n > 0 || c.state.Paused() {
		return 0, 0, false // whoever changes that lets everybody look again
	}
	end = c.p.visibleEnd()
	from, some = channel.KeyedOf(c.state).Unknown(wanted, end)
	return from, end, some
}

// unreadLocked reports whether keys are to be read before anything may go, and nobody reads them: whoever
// does wakes those who wait.
func (x *keyScan) unreadLocked(c *Channel) bool {
	if !x.on.Load() || x.reading {
		return false
	}
	_, _, some := x.unknownLocked(c, 1)
	return some
}

// learn has the channel know keys: of the next messages, if there are fewer to take than wanted, and of
// more while there is nothing, up to so many windows. What is ready does not wait for all that. A consumer that
// wants none asks whether there is something: keys left unread would wake it again at once, for ever. It wakes
// consumers for what it finds, and returns how many windows it read. Of a channel that does not order by key
// it asks one flag.
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
			channel.KeyedOf(c.state).Learn(from+seq.Offset(i), x.read.Of(i)) //nolint:gosec // a window
		}
		if c.closed != nil || !x.on.Load() {
			x.releaseLocked()
		}
		c.mu.Unlock()
		c.wakeFor(n)
		var damaged *commitlog.CorruptionError
		switch {
		case errors.As(err, &damaged):
			if n == 0 { // nothing before it may go
				c.p.Suspend()
				c.p.o.Damaged(damaged)
			}
		case errors.Is(err, limit.ErrNoMemory):
			return windows, nil // it has waited, and asks again
		case err != nil:
			return windows, err
		}
		wanted = 1
	}
	return windows, nil
}

// releaseLocked gives up what is held to read keys. Who reads does so in the end.
func (x *keyScan) releaseLocked() {
	if !x.reading && x.read != nil {
		x.read.Release()
	}
}

// intactElsewhere reports whether other replicas hold what is damaged here.
func intactElsewhere(p *Partition, d *commitlog.CorruptionError) bool {
	return p.o.Elsewhere != nil && p.o.Elsewhere(d)
}

// leaveOutLocked finishes messages that were taken and that the consumer did not choose, or that have expired. Where
// the finish of a message is confirmed so is this one, of nobody: another consumer may choose it, and another leader's
// clock deny that it has expired. It returns what others are to be told of now.
func leaveOutLocked(k *Consumer, left []seq.Offset) finishes {
	c, now := k.ch, k.ch.p.o.Now()
	for _, o := range left {
		if !c.ephemeral && channel.KeyedOf(c.state).Binds(o) && channel.LeaveOut(c.state, o, k.id) == nil {
			c.finishing.Add(o, nil, now)
		} else {
			c.state.Drop(o)
		}
	}
	return nextLocked(c)
}
