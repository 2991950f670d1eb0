package client

import (
	"slices"
	"time"
)

const (
	// turnTime is how often another connection comes first, where what may be in flight cannot
	// be divided evenly among connections.
	turnTime = 5 * time.Second
	// quickTurn is how long a connection keeps its turn without a message, where less may be in
	// flight than there are connections.
	quickTurn = 200 * time.Millisecond
)

// source is a connection of a consumer, whose mutex guards it.
type source struct {
	conn  *conn
	ready int       // that it was told
	seen  uint64    // the messages that had come at the last turn
	used  time.Time // the last turn at which more had come
}

// busy reports whether messages of a source are unanswered, or some came since the last turn.
func (s *source) busy() bool { return s.conn.held.Load() > 0 || s.conn.got.Load() != s.seen }

// credit divides what may be in flight of a consumer, whose mutex guards it, among its sources.
type credit struct {
	sources []*source   // in the order in which they come first
	scarce  bool        // less may be in flight than there are sources
	tick    *time.Timer // when turn is to be called
	turned  time.Time   // the last time that another came first
}

// share tells each source how many messages may be in flight on it, of all.
func (c *credit) share(all int) {
	held := make([]int, len(c.sources))
	for i, s := range c.sources {
		held[i] = int(s.conn.held.Load())
	}
	for i, n := range shares(all, held) {
		s := c.sources[i]
		if most := s.conn.server.MaxRdyCount; most > 0 {
			n = min(n, most)
		}
		if s.ready != n {
			s.ready = n
			s.conn.queue(command{name: cmdRDY, count: n})
		}
	}
	scarce := all > 0 && all < len(c.sources)
	if scarce && !c.scarce {
		c.tick.Reset(quickTurn)
	}
	c.scarce = scarce
}

// turn has other sources come first: every quickTurn in place of those that had their turn and got
// nothing, where less may be in flight than there are sources, and every turnTime in any case. What
// they share is to be told them.
func (c *credit) turn(now time.Time) {
	next := turnTime
	switch {
	case now.Sub(c.turned) >= turnTime:
		c.turned = now
		if len(c.sources) > 0 {
			c.sources = append(c.sources[1:], c.sources[0])
		}
	case c.scarce:
		c.putLast(func(s *source) bool { return s.ready > 0 && !s.busy() })
	}
	for _, s := range c.sources {
		if got := s.conn.got.Load(); got != s.seen {
			s.seen, s.used = got, now
		} else if timeout := time.Duration(s.conn.server.MsgTimeout) * time.Millisecond; timeout > 0 && now.Sub(s.used) > timeout {
			s.conn.held.Store(0) // the broker redelivers them
		}
	}
	if c.scarce {
		next = quickTurn
	}
	c.tick.Reset(next)
}

// putLast moves the sources that are so behind the others.
func (c *credit) putLast(are func(*source) bool) {
	slices.SortStableFunc(c.sources, func(a, b *source) int {
		switch last := are(a); {
		case last == are(b):
			return 0
		case last:
			return 1
		}
		return -1
	})
}

// shares divides what may be in flight, all, among connections, of which each holds some
// messages that are unanswered. The parts differ by at most one, and the first get more. Where
// there is less than one for each, the first get one each, as far as others do not still hold
// what was theirs.
func shares(all int, held []int) []int {
	out := make([]int, len(held))
	if all >= len(held) {
		for i := range out {
			out[i] = all / len(out)
			if i < all%len(out) {
				out[i]++
			}
		}
		return out
	}
	free := all
	for i, n := range held {
		if i < all {
			n = max(n-1, 0) // beyond its own
		}
		free -= n
	}
	for _, holds := range []bool{true, false} {
		for i := range all {
			if (held[i] > 0) == holds && free > 0 {
				out[i] = 1
				free--
			}
		}
	}
	return out
}
