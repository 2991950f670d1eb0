package topic

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// ConsumerCounts are a consumer's counters.
type ConsumerCounts struct {
	InFlight                                int64
	Delivered, Finished, Requeued, TimedOut uint64
}

// Counts returns the consumer's counters.
func (k *Consumer) Counts() ConsumerCounts {
	return ConsumerCounts{k.inFlight.Load(), k.delivered.Load(), k.finished.Load(), k.requeued.Load(), k.timedOut.Load()}
}

// Held returns the message in flight that the consumer has had longest, and for how long; false if it has none.
func (k *Consumer) Held() (o seq.Offset, held time.Duration, some bool) {
	k.ch.mu.Lock()
	defer k.ch.mu.Unlock()
	return k.ch.state.TakenBy(k.id).First(k.ch.p.o.Now())
}

// Add adds another consumer's counters.
func (c *ConsumerCounts) Add(o ConsumerCounts) {
	c.InFlight += o.InFlight
	c.Delivered += o.Delivered
	c.Finished += o.Finished
	c.Requeued += o.Requeued
	c.TimedOut += o.TimedOut
}

// UndoDeliveries undoes the delivery of messages in flight that reached no client, as unseen reports,
// which must not block: they are redelivered next, in delivery order, and this delivery does
// not count. It needs no lease.
func (k *Consumer) UndoDeliveries(unseen func(seq.Offset) bool) {
	c, n := k.ch, 0
	c.mu.Lock()
	if c.closed == nil {
		for _, o := range slices.Backward(c.state.TakenBy(k.id).Offsets()) {
			if unseen(o) {
				c.state.UndoTake(o)
				n++
			}
		}
	}
	k.recountLocked()
	c.mu.Unlock()
	if n == 0 {
		return
	}
	k.delivered.Add(-uint64(n))
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	c.wakeFor(n)
}

// Measure records the channel's current totals in its Flow.
func (c *Channel) Measure(now time.Time) {
	end := c.p.visibleEnd()
	c.mu.Lock()
	n, paused := countsLocked(c, end), c.state.Paused
	c.mu.Unlock()
	t := n.Totals()
	t.Waiting = n.Depth > 0 && !paused
	c.Flow.Observe(now, t)
}

// countsLocked returns the statistics of the channel's state. The number of messages never falls,
// although the channel is told of those that are for others before they are visible.
func countsLocked(c *Channel, end seq.Offset) channel.Counts {
	n := c.state.View().Counts(end)
	c.messages = max(c.messages, n.Messages)
	n.Messages = c.messages
	return n
}
