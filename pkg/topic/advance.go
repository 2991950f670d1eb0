package topic

import (
	"cmp"
	"slices"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/seq"
)

// apply makes the change to a snapshot. Made again, or late, it does nothing:
// a position never moves back by it.
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

// meet returns the channel that a change of its position is about, or nil if the
// snapshot knows newer of it. A channel that the snapshot does not have, or only
// from before an operator moved it, begins at the floor that the change names:
// everything below is finished.
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
