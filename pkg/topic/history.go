package topic

import (
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Place is a channel's position in a partition, and the effect of a move to a target.
type Place struct {
	Floor       seq.Offset
	Finished    []position.Range // beyond the floor
	Target      seq.Offset       // within the log
	Redelivered int64            // finished messages that would be delivered again
	Skipped     int64            // unfinished messages that would not be delivered
}

// Place returns the position of the channel and the effect of a move to target; nil means the end.
func (x Operator) Place(target *seq.Offset) Place {
	c := x.c
	start, end := c.p.o.Log.Start(), c.p.o.Log.CommittedEnd()
	visible, now := c.p.visibleEnd(), c.p.o.Now()
	c.mu.Lock()
	p := c.state.View().Position(now, c.p.o.Ages.Wall(now))
	cursor := c.state.View().Cursor()
	c.mu.Unlock()
	place := Place{Floor: p.Floor, Finished: p.Finished, Target: max(visible, cursor)}
	if target != nil {
		place.Target = *target
	}
	place.Target = min(max(place.Target, start), end)
	p.Floor = max(p.Floor, start)
	place.Redelivered, place.Skipped = p.Moved(place.Target)
	return place
}
