package topic

import (
	"slices"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/reading"
)

// Join adds a consumer to the channel. max bounds their number; 0: no bound. It returns nil without
// an error if there are already max consumers.
func (c *Channel) Join(o ConsumerOptions, max int) (*Consumer, error) {
	k, undone, err := c.join(o, max)
	if undone > 0 {
		c.p.keeper.MarkDirty()
		c.p.Gate.messageLeft()
		c.wakeFor(undone)
	}
	return k, err
}

func (c *Channel) join(o ConsumerOptions, max int) (k *Consumer, undone int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, 0, c.closed
	}
	if max > 0 && len(c.consumers) >= max {
		return nil, 0, nil
	}
	if !c.tags.Admit(o.Tag) {
		return nil, 0, errTooManyTags
	}
	c.lastID++
	k = &Consumer{ch: c, id: c.lastID, o: o, at: reading.New(c.p.o.Log)}
	c.consumers = append(c.consumers, k)
	if o.Tag != "" {
		retagLocked(c)
	}
	return k, c.adoptLocked(k), nil
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
	var r returned
	if c.closed == nil {
		if i >= 0 { // a disposer is not among them
			c.departed.Add(k.id, k.o.Name, c.p.o.Now())
		}
		if i >= 0 {
			r = c.returnLocked(k.id, func(t channel.Taken) int { return t.Lost(c.p.o.Now(), companyOf(k)) })
		} else {
			r = c.returnLocked(k.id, channel.Taken.Disconnect)
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
	r.follow(c, k.o.Name)
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	c.wakeFor(r.n + 1) // one more, because it may have consumed a wake
	return left
}
