package topic

import (
	"context"
	"errors"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog"
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

// exactWithin bounds the bytes of the log that Exact reads.
const exactWithin = 64 << 20

// Exact takes the messages for other channels, which this one would meet and skip, off the counts of a place. It reads
// the log for that, at most exactWithin bytes: those beyond are still counted. It ends early when ctx does.
func (x Operator) Exact(ctx context.Context, p Place) Place {
	r := x.c.p.o.Log.NewReader()
	defer r.Release()
	end := max(p.Floor, p.Target)
	if n := len(p.Finished); n > 0 {
		end = max(end, p.Finished[n-1].End)
	}
	left := exactWithin
	for o := min(p.Floor, p.Target); o < end && left > 0 && ctx.Err() == nil; {
		b, err := r.Batch(o)
		var below *commitlog.BelowStartError
		var damaged *commitlog.CorruptionError
		switch {
		case errors.As(err, &below) && below.Start > o:
			o = below.Start
			continue
		case errors.As(err, &damaged) && damaged.Next > o:
			o = damaged.Next
			continue
		case err != nil:
			return p
		}
		for _, a := range arrivalsIn(x.c.p, b, o, attrAddressed, nil) {
			if a.offset < end && !x.c.HasVersion(a.to.Channel) {
				p.without(a.offset)
			}
		}
		left -= b.Size()
		o = b.End()
	}
	return p
}

// without takes a message off the counts.
func (p *Place) without(o seq.Offset) {
	_, finished := slices.BinarySearchFunc(p.Finished, o, func(r position.Range, o seq.Offset) int {
		switch {
		case o >= r.End:
			return -1
		case o < r.From:
			return 1
		}
		return 0
	})
	switch finished = finished || o < p.Floor; {
	case finished && o >= p.Target:
		p.Redelivered--
	case !finished && o < p.Target:
		p.Skipped--
	}
}
