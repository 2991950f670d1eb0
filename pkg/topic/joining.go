package topic

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/reading"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Join adds a consumer to the channel. max bounds their number; 0: no bound. It returns nil without
// an error if there are already max consumers.
func (c *Channel) Join(o ConsumerOptions, max int) (*Consumer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, c.closed
	}
	if max > 0 && len(c.consumers) >= max {
		return nil, nil
	}
	if !c.tags.Admit(o.Tag) {
		return nil, errTooManyTags
	}
	c.lastID++
	k := &Consumer{ch: c, id: c.lastID, o: o, at: reading.New(c.p.o.Log)}
	c.consumers = append(c.consumers, k)
	if o.Tag != "" {
		retagLocked(c)
	}
	return k, nil
}

// Leave removes the consumer; its messages in flight are ready again at once. It returns the
// remaining number of consumers. The goroutine that takes must have stopped.
func (k *Consumer) Leave() (left int) {
	c := k.ch
	k.at.Release()
	c.mu.Lock()
	i := slices.Index(c.consumers, k)
	if i >= 0 {
		c.consumers = slices.Delete(c.consumers, i, i+1)
	}
	c.waiting.remove(k)
	c.waiters.Store(c.waiting.len())
	n := 0
	var noted, lost []seq.Offset
	if c.closed == nil {
		if c.bounded.Load() {
			for _, o := range c.state.TakenBy(k.id).Offsets() {
				noted = append(noted, c.state.View().Current(o))
			}
		}
		if i >= 0 { // a disposer is not among them
			c.departed.Add(k.id, k.o.Name, c.p.o.Now())
		}
		if c.p.trace.Load() != nil {
			lost = c.state.TakenBy(k.id).Offsets()
		}
		if i >= 0 {
			n = c.state.TakenBy(k.id).Lost(c.p.o.Now(), companyOf(k))
		} else {
			n = c.state.TakenBy(k.id).Disconnect()
		}
		if k.o.Tag != "" {
			retagLocked(c)
		}
	}
	if left = len(c.consumers); left == 0 {
		c.keys.releaseLocked()
	}
	arm := c.armLocked()
	c.mu.Unlock()
	c.arm(arm)
	for _, o := range noted {
		RetriesOf(c).storeAttempts(o)
	}
	for _, o := range lost {
		traced(k, trace.Requeued, o, c.p.o.Now())
	}
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	c.wakeFor(n + 1) // one more, because it may have consumed a wake
	return left
}
