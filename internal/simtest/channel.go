package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// unsynced is the time of which a power loss may undo an ordered channel's FINs:
// those between two checkpoints, which are 200 ms apart, and those that replicas
// did not acknowledge at once.
const unsynced = 500 * time.Millisecond

// Channel records what the consumers of one channel got from one partition. It
// may be used by many goroutines.
type Channel struct {
	history *History
	ordered bool
	copies  bool            // there are some in the log
	foreign bool            // which are for other channels alone
	named   map[string]bool // what was delivered, where there are copies for this channel
	keyOf   func(name string) string
	among   func(name string) bool // ordered: which messages are; nil: all

	mu        sync.Mutex // guards what follows
	delivered map[uint64]delivery
	next      uint64 // ordered: nothing beyond may be delivered
	low       uint64 // ordered: nothing below may be delivered again
	again     int    // deliveries of what was delivered before
	wrong     []string
	missing   []acked // of the first known ones that were acknowledged, those not delivered when last looked at
	known     int
	lines     map[string]*Channel // by key; what is ordered

	// Ordered: what low was unsynced before it grew last, and since. Never empty.
	grown []growth
	// Ordered: how often power was lost since, the last time, and the least that low
	// may become for it.
	losses int
	lostAt time.Time
	least  uint64
}

// growth is that low became what it was from then on.
type growth struct {
	at  time.Time
	low uint64
}

type delivery struct {
	name  string
	times int
}

// NewChannel returns the record of a channel that begins at offset 0 of the log
// with a history.
func NewChannel(h *History, ordered bool) *Channel {
	return &Channel{history: h, ordered: ordered, delivered: map[uint64]delivery{}, grown: []growth{{}}}
}

// ExpectCopies declares that the log has copies of messages, for this channel or others. It is
// called before anything is delivered.
func (c *Channel) ExpectCopies(mine bool) {
	c.copies, c.foreign, c.named = true, !mine, map[string]bool{}
}

// Deliver records that a consumer got a message. late means that an ordered channel may have
// delivered later messages before: the message was in transit for longer than its timeout, or came
// from a replaced leader.
func (c *Channel) Deliver(name string, at uint64, late bool) {
	known := c.history.called(name)
	copied := c.foreign && c.history.elsewhere(name, at)
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.delivered[at]
	switch {
	case !known:
		c.wrongLocked("%q was delivered at %d and was not published", name, at)
	case d.times > 0 && d.name != name:
		c.wrongLocked("%q was delivered at %d, and %q before", name, at, d.name)
	case copied:
		c.wrongLocked("%s was delivered at %d, where a copy for another channel stands", name, at)
	case c.ordered && at > c.next && c.passesLocked(at):
		c.wrongLocked("%s was delivered at %d, and %d was not finished", name, at, c.next)
	case c.ordered && at < c.low && !late && !c.goBackLocked(at):
		c.wrongLocked("%s was delivered at %d, and %d had been before%s", name, at, c.low, c.excuseLocked())
	}
	if d.times > 0 {
		c.again++
	}
	c.delivered[at] = delivery{name, d.times + 1}
	if c.copies && !c.foreign {
		c.named[name] = true
	}
	if at > c.low {
		c.growLocked(at)
	}
	if line := c.lineLocked(name); line != nil {
		line.Deliver(name, at, late)
	}
}

// LosePower records that a machine loses power now. An ordered channel may go back
// once for it, by the FINs that were not synced, and continues in order from
// there. Once it has continued without going back, it may not go back later: the
// replicas in sync at that time knew the position.
func (c *Channel) LosePower() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loseLocked(c.grown[0].low)
	for _, line := range c.lines {
		line.LosePower()
	}
}

// LosePositions notes that the positions on a machine are damaged now. An ordered
// channel may go back once for it, to the start, if no other replica could lead.
func (c *Channel) LosePositions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loseLocked(0)
	for _, line := range c.lines {
		line.LosePositions()
	}
}

// loseLocked notes a loss after which low may go back to least.
func (c *Channel) loseLocked(least uint64) {
	if c.losses == 0 {
		c.least = least
	}
	c.least = min(c.least, least)
	c.losses++
	c.lostAt = time.Now()
}

// goBackLocked makes an ordered channel continue from at, if it may go back
// that far.
func (c *Channel) goBackLocked(at uint64) bool {
	if c.losses == 0 || at < c.least {
		return false
	}
	c.losses--
	c.low, c.grown = at, []growth{{time.Now(), at}}
	return true
}

// excuseLocked describes how far the channel was allowed to go back.
func (c *Channel) excuseLocked() string {
	if c.losses == 0 {
		return ""
	}
	return fmt.Sprintf(", and no loss of power explains less than %d", c.least)
}

func (c *Channel) growLocked(low uint64) {
	now := time.Now()
	if c.losses > 0 && now.Sub(c.lostAt) > unsynced {
		c.losses = 0
	}
	c.low = low
	c.grown = append(c.grown, growth{now, low})
	for len(c.grown) > 1 && now.Sub(c.grown[1].at) >= unsynced {
		c.grown = c.grown[1:]
	}
}

// Finish notes that a consumer is about to finish a message.
func (c *Channel) Finish(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, at+1)
	if line := c.lineLocked(c.delivered[at].name); line != nil {
		line.Finish(at)
	}
}

// Again returns how many deliveries were not the first of their message.
func (c *Channel) Again() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}

// Missing returns the number of acknowledged messages that were never delivered,
// and the first of them.
func (c *Channel) Missing() (n int, first string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.history.ackedFrom(c.known)
	c.known += len(fresh)
	c.missing = slices.DeleteFunc(append(c.missing, fresh...), func(m acked) bool { return c.delivered[m.at].name == m.name || c.named[m.name] })
	if len(c.missing) == 0 {
		return 0, ""
	}
	m := slices.MinFunc(c.missing, func(a, b acked) int { return cmp.Compare(a.at, b.at) })
	return len(c.missing), fmt.Sprintf("%s, acknowledged at %d, was not delivered", m.name, m.at)
}

// Check returns the violations in the deliveries.
func (c *Channel) Check() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.wrong)
	for _, key := range slices.Sorted(maps.Keys(c.lines)) {
		for _, text := range c.lines[key].Check() {
			all = append(all, fmt.Sprintf("key %s: %s", key, text))
		}
	}
	return all
}

func (c *Channel) wrongLocked(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}
