package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/flow"
)

// Measure records a channel's current totals in its Flow.
func Measure(c *Channel, now time.Time) {
	end := c.p.visibleEnd()
	c.mu.Lock()
	n, paused := c.state.Counts(end), c.state.Paused()
	c.mu.Unlock()
	t := TotalsOf(n)
	t.Waiting = n.Depth > 0 && !paused
	c.Flow.Observe(now, t)
}

// TotalsOf returns what a channel with the given counts has received and finished.
func TotalsOf(n channel.Counts) flow.Totals {
	return flow.Totals{In: n.Messages, Out: n.Finished}
}
