package simtest

import (
	"fmt"
	"slices"
	"sync"
)

// Channel is what the consumers of one channel got from one partition. It may be
// used by many goroutines.
type Channel struct {
	history *History
	ordered bool

	mu        sync.Mutex // guards what follows
	delivered map[uint64]delivery
	next      uint64 // ordered: nothing beyond may be delivered
	low       uint64 // ordered: nothing below may be delivered again
	again     int    // deliveries of what was delivered before
	wrong     []string
}

type delivery struct {
	name  string
	times int
}

// NewChannel returns the record of a channel that begins at offset 0 of the log
// with a history.
func NewChannel(h *History, ordered bool) *Channel {
	return &Channel{history: h, ordered: ordered, delivered: map[uint64]delivery{}}
}

// Deliver notes that a consumer was handed a message. back says that it may be
// one from before what an ordered channel has delivered: it was on its way for
// longer than its timeout, or positions were lost.
func (c *Channel) Deliver(name string, at uint64, back bool) {
	known := c.history.called(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.delivered[at]
	switch {
	case !known:
		c.wrongLocked("%q was delivered at %d and nobody published it", name, at)
	case d.times > 0 && d.name != name:
		c.wrongLocked("%q was delivered at %d, and %q before", name, at, d.name)
	case c.ordered && at > c.next:
		c.wrongLocked("%s was delivered at %d, and %d was not finished", name, at, c.next)
	case c.ordered && at < c.low && !back:
		c.wrongLocked("%s was delivered at %d, and %d had been before", name, at, c.low)
	}
	if d.times > 0 {
		c.again++
	}
	c.delivered[at] = delivery{name, d.times + 1}
	c.low = max(c.low, at)
}

// Finish notes that a consumer is about to finish what it was delivered.
func (c *Channel) Finish(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, at+1)
}

// Again returns how many deliveries were not the first of their message.
func (c *Channel) Again() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}

// Missing returns the acknowledged messages that were never delivered.
func (c *Channel) Missing() []string {
	var missing []string
	c.history.Acknowledged(func(name string, at, _ uint64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.delivered[at].name != name {
			missing = append(missing, fmt.Sprintf("%s, acknowledged at %d, was not delivered", name, at))
		}
	})
	slices.Sort(missing)
	return missing
}

// Check returns what was wrong with the deliveries.
func (c *Channel) Check() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wrong)
}

func (c *Channel) wrongLocked(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}
