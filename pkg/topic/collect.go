package topic

import (
	"cmp"
	"math"
	"slices"

	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
)

// collector collects the positions of a partition's channels for its keeper. The partition's mutex guards it.
type collector struct {
	p     *Partition
	many  int            // entries of a position from which on changes are recorded
	known []knownChannel // channels in the last snapshot or update, by name
}

// knownChannel is a channel in the last snapshot or update of a partition.
type knownChannel struct {
	name     string
	channel  *Channel // nil: it was restored, and has not been added yet
	revision uint64   // see channel.State.Changed
}

// manyEntries is the length of a position from which on recording its changes is worthwhile: it
// then takes more than a hundred kilobytes.
const manyEntries = 16 << 10

func compareKnown(a, b knownChannel) int { return cmp.Compare(a.name, b.name) }

// Current implements positions.Source.
func (g *collector) Current() positions.Snapshot {
	p := g.p
	p.mu.Lock()
	defer p.mu.Unlock()
	s := positions.Snapshot{BacklogFrom: p.backlog, Lost: p.lost, PausedAt: g.pause(), Addressed: p.arrivals.covered()}
	g.known = g.known[:0]
	seen := seq.Offset(math.MaxUint64)
	for _, c := range p.channels {
		pos, revision := g.position(c)
		seen = min(seen, pos.Position.Floor)
		if !c.ephemeral {
			s.Channels = append(s.Channels, pos)
			g.known = append(g.known, knownChannel{c.name, c, revision})
		}
	}
	for _, c := range p.restored {
		s.Channels = append(s.Channels, c)
		g.known = append(g.known, knownChannel{name: c.Name})
	}
	slices.SortFunc(g.known, compareKnown)
	if len(s.Channels) == 0 && len(p.channels) > 0 {
		// There are only ephemeral channels: after a restart the next first channel continues where they were.
		s.BacklogFrom = max(s.BacklogFrom, seen)
	}
	return s
}

// pause returns the offset at which the topic is paused; nil: it is not.
func (g *collector) pause() *seq.Offset {
	at := g.p.pausedAt.Load()
	if at == notPaused {
		return nil
	}
	return new(seq.Offset(at))
}

// Changes implements positions.Source. Without a large channel, a snapshot is just as small.
func (g *collector) Changes() (positions.Update, bool) {
	p := g.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(g.known, func(k knownChannel) bool { return k.channel != nil && g.notes(k.channel) }) {
		return positions.Update{}, false
	}
	u := positions.Update{Header: positions.Snapshot{BacklogFrom: p.backlog, Lost: p.lost, PausedAt: g.pause(), Addressed: p.arrivals.covered()}}
	kept := make([]knownChannel, 0, len(g.known))
	for _, k := range g.known {
		_, restored := p.restored[k.name]
		now := p.channels[k.name]
		switch {
		case restored && k.channel == nil:
			kept = append(kept, k) // nothing changed
		case now == nil || now.ephemeral:
			u.Removed = append(u.Removed, k.name)
		}
	}
	for _, c := range p.channels {
		if c.ephemeral {
			continue
		}
		var before knownChannel
		if i, ok := slices.BinarySearchFunc(g.known, knownChannel{name: c.name}, compareKnown); ok {
			before = g.known[i]
		}
		kept = append(kept, g.collect(c, before, &u))
	}
	slices.SortFunc(kept, compareKnown)
	g.known = kept
	return u, true
}

// notes reports whether a channel's changes are being recorded.
func (g *collector) notes(c *Channel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recorder.Recording()
}

// position returns a channel's position for a checkpoint. If the position is large, changes are
// recorded from then on.
func (g *collector) position(c *Channel) (p positions.Channel, revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return g.wholeLocked(c), c.state.View().Changed()
}

// collect adds to u what changed in a channel since it was last collected.
func (g *collector) collect(c *Channel, before knownChannel, u *positions.Update) knownChannel {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := knownChannel{c.name, c, c.state.View().Changed()}
	if before.channel == c {
		if before.revision == now.revision {
			return now
		}
		moment := g.p.o.Now()
		if change, ok := c.recorder.Changes(moment, g.p.o.Ages.Wall(moment)); ok {
			u.Changed = append(u.Changed, positions.ChannelChange{Name: c.name, Version: c.version, Moves: c.moves, Change: change})
			return now
		}
	}
	u.Header.Channels = append(u.Header.Channels, g.wholeLocked(c))
	return now
}

// wholeLocked returns a channel's complete position; the channel's lock is held.
func (g *collector) wholeLocked(c *Channel) positions.Channel {
	now := g.p.o.Now()
	return positions.Channel{Name: c.name, Version: c.version, Moves: c.moves, Position: c.recorder.Position(now, g.p.o.Ages.Wall(now), g.many)}
}
