package topic

import (
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Place is where a channel is in a partition, and what a move to a target would do.
type Place struct {
	Floor       seq.Offset
	Finished    []channel.Range // beyond the floor
	Target      seq.Offset      // within the log
	Redelivered int64           // finished messages that would be delivered again
	Skipped     int64           // unfinished ones that would not
}

// PlaceOf returns where a channel is, and what a move to target would do; nil: behind
// all that it can see.
func PlaceOf(c *Channel, target *seq.Offset) Place {
	start, end := c.p.o.Log.Start(), c.p.o.Log.CommittedEnd()
	visible, now := c.p.visibleEnd(), c.p.o.Now()
	c.mu.Lock()
	p := c.state.Position(now, c.p.o.Ages.Wall(now))
	cursor := c.state.Cursor()
	c.mu.Unlock()
	place := Place{Floor: p.Floor, Finished: p.Finished, Target: max(visible, cursor)}
	if target != nil {
		place.Target = *target
	}
	place.Target = min(max(place.Target, start), end)
	place.Redelivered, place.Skipped = channel.Moved(max(p.Floor, start), p.Finished, place.Target)
	return place
}

// Return moves a channel back to where it was before it was moved to target, as
// channel.Return does, and returns how many messages of there are gone. When it returns,
// that is on this node's disk; Partition.Flush waits for the others.
func Return(c *Channel, floor seq.Offset, finished []channel.Range, target seq.Offset) (gone int64, err error) {
	start, end := c.p.o.Log.Start(), c.p.o.Log.CommittedEnd()
	_, gone = channel.Moved(floor, finished, start)
	was := channel.Position{Floor: floor, Finished: finished}.Below(end)
	to := max(was.Floor, start)
	err = c.move(func(s *channel.State) { channel.Return(s, to, was.Finished, target) })
	return gone, err
}
