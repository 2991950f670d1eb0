package positions

import (
	"cmp"
	"math"
	"slices"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Snapshot is the stored state of a partition except its log.
type Snapshot struct {
	BacklogFrom seq.Offset  // where a first channel starts
	PausedAt    *seq.Offset // channels see nothing from here on; nil: not paused
	Channels    []Channel   // sorted by name
	// Addressed is the offset up to which the positions include addressed messages: the log is
	// scanned for later ones.
	Addressed seq.Offset
	// Lost reports that positions of channels could not be read. A channel missing from the
	// snapshot restarts at the log's start.
	Lost bool
}

// Channel is the stored position of one channel.
type Channel struct {
	Name     string
	Version  uint64 // distinguishes the channel from an earlier one with the same name
	Moves    uint64 // grows whenever an operator moves the channel, possibly back
	Position position.Position
}

// find returns the index of a channel by name, or where it would be inserted.
func (s *Snapshot) find(name string) (i int, found bool) {
	return slices.BinarySearchFunc(s.Channels, name, func(c Channel, name string) int { return cmp.Compare(c.Name, name) })
}

// compareNames orders channels by name.
func compareNames(a, b Channel) int { return cmp.Compare(a.Name, b.Name) }

// reaches reports whether the snapshot refers to offsets at or beyond end.
func (s *Snapshot) reaches(end seq.Offset) bool {
	if s.BacklogFrom > end || s.Addressed > end || s.PausedAt != nil && *s.PausedAt > end {
		return true
	}
	return slices.ContainsFunc(s.Channels, func(c Channel) bool { return c.Position.Reaches(end) })
}

// below returns the part of the snapshot below end. It shares memory with the snapshot.
func (s *Snapshot) below(end seq.Offset) Snapshot {
	cut := Snapshot{BacklogFrom: min(s.BacklogFrom, end), PausedAt: s.PausedAt, Lost: s.Lost, Addressed: min(s.Addressed, end)}
	if s.PausedAt != nil && *s.PausedAt > end {
		cut.PausedAt = &end
	}
	cut.Channels = make([]Channel, 0, len(s.Channels))
	for _, c := range s.Channels {
		c.Position = c.Position.Below(end)
		cut.Channels = append(cut.Channels, c)
	}
	return cut
}

// floor returns the offset below which no channel needs a message any more.
func (s *Snapshot) floor() seq.Offset {
	if s.Lost {
		return 0
	}
	if len(s.Channels) == 0 {
		return s.BacklogFrom
	}
	floor := seq.Offset(math.MaxUint64)
	for i := range s.Channels {
		floor = min(floor, s.Channels[i].Position.Floor)
	}
	return floor
}

// keep adds what a snapshot has as finished in the same channel, unless an operator has moved it in
// between, and reports whether there was any.
func (c *Channel) keep(known *Snapshot) bool {
	i, found := known.find(c.Name)
	if !found || known.Channels[i].Version != c.Version || known.Channels[i].Moves != c.Moves {
		return false
	}
	before := c.Position
	c.Position.Keep(&known.Channels[i].Position)
	return !samePosition(&before, &c.Position)
}

// equal reports whether two snapshots are equal.
func (s *Snapshot) equal(t *Snapshot) bool {
	if s.Lost != t.Lost || s.Addressed != t.Addressed || s.BacklogFrom != t.BacklogFrom || (s.PausedAt == nil) != (t.PausedAt == nil) ||
		s.PausedAt != nil && *s.PausedAt != *t.PausedAt {
		return false
	}
	return slices.EqualFunc(s.Channels, t.Channels, func(a, b Channel) bool {
		return a.Name == b.Name && a.Version == b.Version && a.Moves == b.Moves && samePosition(&a.Position, &b.Position)
	})
}

func samePosition(a, b *position.Position) bool {
	return a.Floor == b.Floor && slices.Equal(a.Finished, b.Finished) &&
		a.Deferred.Equal(b.Deferred) && slices.Equal(a.Attempted, b.Attempted)
}

// apply applies the change to a snapshot. It never moves a position back, so a repeated or late
// change has no effect.
func (s *Snapshot) apply(a advance.Change) {
	if c := s.meet(a.Channel, a.Version, a.Moves, a.Floor); c != nil {
		c.Position.AdvanceTo(a.Floor)
		if a.Attempts > 0 {
			c.Position.Attempt(a.Offset, a.Attempts)
		} else {
			c.Position.Finish(a.Offset)
		}
	}
}

// meet returns the channel whose position changes, or nil if the snapshot has a newer state of it.
// A channel that the snapshot lacks, or has only from before an operator moved it, begins at the
// floor that the change names: everything below is finished.
func (s *Snapshot) meet(name string, version, moves uint64, floor seq.Offset) *Channel {
	i, found := s.find(name)
	if !found {
		s.Channels = slices.Insert(s.Channels, i, Channel{Name: name})
	}
	c := &s.Channels[i]
	switch cmp.Or(cmp.Compare(c.Version, version), cmp.Compare(c.Moves, moves)) {
	case -1:
		*c = Channel{Name: name, Version: version, Moves: moves}
		c.Position.Floor = floor
	case 1:
		return nil
	}
	return c
}
