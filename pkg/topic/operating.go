package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Look calls f with the state of a channel, which it must not change or keep. The channel
// stands still meanwhile.
func Look(c *Channel, f func(*channel.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.state)
}

// Move applies an operator's change to a channel that may lead it back. When it returns, that
// is on this node's disk; Partition.Flush waits for the others.
func Move(c *Channel, f func(*channel.State)) error { return c.move(f) }

// Change applies one that finishes messages, or has them delivered: what others are being told
// meanwhile stays true. When it returns, that is on this node's disk.
func Change(c *Channel, f func(*channel.State)) error {
	c.change(f)
	_, err := c.p.store()
	return err
}

// restOf returns how long a message that was taken is still deferred by its publisher: one
// that was delivered before is not, nor one that an operator advanced.
func restOf(c *Channel, b commitlog.Batch, t channel.Delivery, delay time.Duration, now time.Time) time.Duration {
	rest := c.p.rest(b, t.Offset, delay, now)
	if rest > 0 && (t.Attempts > 1 || advanced(c, t.Offset)) {
		return 0
	}
	return rest
}

func advanced(c *Channel, o seq.Offset) (is bool) {
	Look(c, func(s *channel.State) { is = channel.Advanced(s, o) })
	return is
}
