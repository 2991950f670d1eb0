package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Look calls f with the state of a channel, which f must not change or retain. The channel is
// locked meanwhile.
func Look(c *Channel, f func(*channel.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.state)
}

// Move applies an operator's change that may move a channel back. When it returns, that is on this
// node's disk; Partition.Flush waits for the other replicas.
func Move(c *Channel, f func(*channel.State)) error { return c.move(f) }

// Change applies a change that finishes messages or makes them ready, consistently with changes
// being replicated. It is on this node's disk when Change returns.
func Change(c *Channel, f func(*channel.State)) error {
	c.change(f)
	return c.p.keeper.Store()
}

// restOf returns how long a taken message is still deferred by its publisher. A message that was
// delivered before, or that an operator advanced, is not deferred.
func restOf(c *Channel, b commitlog.Batch, t channel.Delivery, delay time.Duration, now time.Time) time.Duration {
	rest := c.p.rest(b, t.Offset, delay, now)
	if rest > 0 && (t.Attempts > 1 || advanced(c, t.Offset)) {
		return 0
	}
	return rest
}

func advanced(c *Channel, o seq.Offset) (is bool) {
	Look(c, func(s *channel.State) { is = channel.DeferralsOf(s).Advanced(o) })
	return is
}
