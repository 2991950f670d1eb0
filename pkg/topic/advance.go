package topic

import (
	"cmp"
	"slices"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/seq"
)

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
func (s *Snapshot) meet(name string, version, moves uint64, floor seq.Offset) *ChannelPosition {
	i, found := s.find(name)
	if !found {
		s.Channels = slices.Insert(s.Channels, i, ChannelPosition{Name: name})
	}
	c := &s.Channels[i]
	switch cmp.Or(cmp.Compare(c.Version, version), cmp.Compare(c.Moves, moves)) {
	case -1:
		*c = ChannelPosition{Name: name, Version: version, Moves: moves}
		c.Position.Floor = floor
	case 1:
		return nil
	}
	return c
}
