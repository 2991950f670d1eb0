package client

import (
	"slices"
	"time"
)

const (
	// turnTime is how often the first connection changes if the messages in flight cannot be
	// divided evenly among connections.
	turnTime = 5 * time.Second
	// quickTurn is how long a connection keeps its turn without receiving a message if fewer
	// messages may be in flight than there are connections.
	quickTurn = 200 * time.Millisecond
)

// source is a connection of a consumer. The consumer's mutex guards it.
type source struct {
	conn  *conn
	ready int       // the RDY count sent last
	seen  uint64    // messages received until the last turn
	used  time.Time // the last turn at which more had arrived
}

// busy reports whether a source has unanswered messages, or has received some since the last turn.
func (s *source) busy() bool { return s.conn.held.Load() > 0 || s.conn.got.Load() != s.seen }

// credit divides a consumer's maximum in flight among its sources. The consumer's mutex guards it.
type credit struct {
	sources []*source   // in order of preference
	scarce  bool        // fewer messages may be in flight than there are sources
	tick    *time.Timer // when turn is called next
	turned  time.Time   // the last time the order changed
}

// share sets for each source how many of all messages may be in flight on it.
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

// turn changes the order of the sources: every quickTurn, sources whose turn brought no message
// move back, if fewer messages may be in flight than there are sources; every turnTime in any
// case. The caller then sends the new shares.
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

// putLast moves the sources that satisfy are to the end.
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

// shares divides all messages in flight among connections, which hold the given numbers of
// unanswered messages. The shares differ by at most one, and the first ones are larger. If there
// is less than one per connection, the first ones get one each, unless other connections still
// hold messages from an earlier share.
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
			n = max(n-1, 0) // more than its own share
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
