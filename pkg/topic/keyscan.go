package topic

import (
	"errors"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyScanMax is how many messages are looked at together for their keys.
const keyScanMax = 256

// keyScan reads the keys of messages in the log, for a channel that orders by them, ahead of what
// its consumers take. One of these reads at a time.
type keyScan struct {
	on      atomic.Bool // the channel orders by key
	reading bool        // guarded by the channel's lock; what follows is of who reads

	at   *reading // nil: nothing was read yet
	keys []byte   // of the messages, one behind the other
	ends []int    // where each ends
}

// learn has the channel know keys until there is enough to take, or no more to know. It wakes
// consumers for what it finds. Of a channel that does not order by key it asks one flag.
func (x *keyScan) learn(k *Consumer, wanted int) error {
	if !x.on.Load() {
		return nil
	}
	c := k.ch
	for {
		c.mu.Lock()
		end := c.p.visibleEnd()
		from, some := channel.KeyedOf(c.state).Unknown(wanted, end)
		if !some || x.reading || c.closed != nil || c.p.suspended.Load() || c.movers.n > 0 {
			if !x.reading && from >= end && x.at != nil {
				x.at.release()
			}
			c.mu.Unlock()
			return nil
		}
		x.reading = true
		c.mu.Unlock()
		if x.at == nil {
			x.at = &reading{reader: c.p.o.Log.NewReader().Paid()}
		}
		err := x.read(from, min(end, from+keyScanMax))
		c.mu.Lock()
		x.reading = false
		for i, begin := 0, 0; i < len(x.ends); i++ {
			channel.KeyedOf(c.state).Learn(from+seq.Offset(i), x.keys[begin:x.ends[i]])
			begin = x.ends[i]
		}
		c.mu.Unlock()
		c.wakeFor(len(x.ends))
		if errors.Is(err, limit.ErrNoMemory) {
			k.wake() // it has waited, and asks again
			return nil
		} else if err != nil {
			return err
		}
	}
}

// read reads the keys of [from, end), or of the first ones. What is damaged or gone has none: who
// takes it will see.
func (x *keyScan) read(from, end seq.Offset) error {
	x.keys, x.ends = x.keys[:0], x.ends[:0]
	defer x.at.rest()
	for o := from; o < end; o++ {
		raw, err := x.at.record(o)
		var below *commitlog.BelowStartError
		var damaged *commitlog.CorruptionError
		if err != nil && !errors.As(err, &below) && !errors.As(err, &damaged) && !errors.Is(err, record.ErrInvalid) {
			return err
		}
		if err == nil {
			x.keys = append(x.keys, record.KeyOf(raw)...)
		}
		x.ends = append(x.ends, len(x.keys))
	}
	return nil
}

// leaveOutLocked finishes messages that were taken and that the consumer did not choose. Where the finish
// of a message is confirmed so is this one, of nobody: another consumer may choose it. It returns what
// others are to be told of now.
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
