package topic

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// addressedWithin bounds how much is appended until it is noted how far the channels were
// told of addressed messages: so much is looked through by the next leader.
const addressedWithin = 4 << 20

// arrival is a message in the log that channels are told of: an addressed one, or one that its
// publisher deferred.
type arrival struct {
	offset seq.Offset
	to     *Address  // nil: it is for all channels
	due    time.Time // until when it is deferred; zero: it is not
}

// arrivals tells the channels of addressed messages once they are committed, each of them
// exactly once: a channel that a message is for has it, and finishes the message that it stands
// in place of; the others pass over it. What the positions that were found do not know of is read
// from the log, with what was deferred since. The partition's mutex guards it, besides told.
type arrivals struct {
	told  atomic.Uint64 // channels were told of everything below, and see nothing else
	noted int64         // position in the log at which that was last stored; of the caller of Committed

	served  bool
	settled bool        // all channels are there
	since   seq.Offset  // what the positions that were found know of
	found   []arrival   // in the log since then, until every channel was told
	unsure  atomic.Bool // some of found are addressed and not committed: nothing is delivered before
}

// untold reports whether channels are still to be told of some of what was found: addressed, or any.
func (a *arrivals) untold(addressed bool) bool {
	return slices.ContainsFunc(a.found, func(at arrival) bool { return uint64(at.offset) >= a.told.Load() && (at.to != nil || !addressed) })
}

// covered returns how far the channels' positions know of addressed messages.
func (a *arrivals) covered() seq.Offset {
	if !a.settled || a.unsure.Load() {
		return a.since
	}
	return seq.Offset(a.told.Load())
}

// passed notes that the channels were told of a batch.
func (a *arrivals) passed(b commitlog.Batch, dirty *marker) {
	a.told.Store(uint64(b.End()))
	if at := b.Position(); at-a.noted >= addressedWithin || at < a.noted {
		a.noted = at
		dirty.mark()
	}
}

// handTo tells a channel, which nobody else knows yet, of what was found. It returns whether
// ticks must be asked for.
func (a *arrivals) handTo(c *Channel) (arm bool) {
	for i := range a.found {
		if at := &a.found[i]; at.offset < seq.Offset(a.told.Load()) {
			arm = at.tell(c, c.p.o.Now(), true) || arm
		}
	}
	return arm
}

// complete notes that all channels are there. It returns whether the positions know of more
// than before.
func (a *arrivals) complete() bool {
	more := !a.settled && a.since != seq.Offset(a.told.Load())
	a.settled = true
	if !a.untold(false) {
		a.found = nil
	}
	return more
}

// inherit finds what the positions do not know of. A committed copy may stand in place of what would be delivered.
func (a *arrivals) inherit(p *Partition) {
	from := a.since
	if p.lost && len(p.restored) == 0 {
		from = p.o.Log.End() // the channels start over, and pass over what they meet
	}
	found := arrivalsSince(p, max(from, p.o.Log.Start()))
	p.mu.Lock()
	defer p.mu.Unlock()
	a.found, a.served = found, true
	a.told.Store(uint64(p.o.Log.CommittedEnd()))
	a.unsure.Store(a.untold(true))
}

// inherited tells the channels of what is found to be committed of an earlier term.
func (a *arrivals) inherited(p *Partition) {
	p.mu.Lock()
	if !a.served {
		p.mu.Unlock()
		return // Serve will see it
	}
	var armed []*Channel
	told, end := seq.Offset(a.told.Load()), p.o.Log.CommittedEnd()
	for i := range a.found {
		if at := &a.found[i]; at.offset >= told && at.offset < end {
			armed = at.tellAll(p, true, armed)
		}
	}
	a.told.Store(uint64(max(told, end)))
	was := a.unsure.Load()
	a.unsure.Store(a.untold(true))
	if a.settled && !a.untold(false) {
		a.found = nil
	}
	p.mu.Unlock()
	p.dirty.mark()
	for _, c := range armed {
		c.arm(true)
	}
	if was {
		p.Wake()
	}
}

// arrived tells the channels of the addressed messages in a batch that is committed. No
// snapshot knows of one of them and not of another.
func (a *arrivals) arrived(p *Partition, b commitlog.Batch) {
	found := arrivalsIn(p, b, b.First(), attrAddressed, nil)
	var armed []*Channel
	p.mu.Lock()
	for i := range found {
		armed = found[i].tellAll(p, false, armed)
	}
	a.told.Store(uint64(b.End()))
	p.mu.Unlock()
	p.dirty.mark()
	p.stir()
	for _, c := range armed {
		c.arm(true)
	}
}

// tellAll tells all channels of a partition, whose lock is held, and adds those to armed that
// need ticks.
func (a *arrival) tellAll(p *Partition, inherited bool, armed []*Channel) []*Channel {
	now := p.o.Now()
	for _, c := range p.channels {
		if a.tell(c, now, inherited) {
			armed = append(armed, c)
		}
	}
	return armed
}

// tell tells a channel. It returns whether ticks must be asked for.
func (a *arrival) tell(c *Channel, now time.Time, inherited bool) (arm bool) {
	rest := time.Duration(0)
	if !a.due.IsZero() {
		rest = max(0, a.due.Sub(now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.to == nil && rest == 0: // it is due by now
	case a.to == nil:
		c.state.Defer(a.offset, now, rest)
	case !isFor(a.to, c):
		channel.PassOver(c.state, a.offset)
	case a.to.Moves:
		channel.Move(c.state, channel.Copy{From: a.to.Offset, To: a.offset, Attempts: a.to.Attempts, Rest: rest, Inherited: inherited}, now)
	default:
		channel.Await(c.state, a.offset, a.to.Attempts, now, rest)
	}
	return c.armLocked()
}

// isFor reports whether a message of the address is for a channel.
func isFor(a *Address, c *Channel) bool { return a.Channel == c.version }

// arrivalsSince returns the addressed and the deferred messages from an offset on, committed or
// not. What cannot be read is met again when it is delivered.
func arrivalsSince(p *Partition, from seq.Offset) (found []arrival) {
	var raw []byte
	for o := from; o < p.o.Log.End(); {
		var b commitlog.Batch
		var err error
		if raw, err = p.o.Log.ReadRaw(o, 0, raw); err == nil {
			b, err = commitlog.Decode(raw)
		}
		var below *commitlog.BelowStartError
		var damaged *commitlog.CorruptionError
		switch {
		case err == nil:
			found = arrivalsIn(p, b, o, attrAddressed|attrDeferred, found)
			o = b.End()
		case errors.As(err, &below) && below.Start > o:
			o = below.Start
		case errors.As(err, &damaged) && damaged.Next > o:
			o = damaged.Next
		default:
			return found
		}
	}
	return found
}

// arrivalsIn appends the messages of some kinds, by the attributes of their batches, that are in a
// batch from an offset on to found.
func arrivalsIn(p *Partition, b commitlog.Batch, from seq.Offset, kinds uint16, found []arrival) []arrival {
	if b.Attributes()&kinds == 0 {
		return found
	}
	now, records := p.o.Now(), b.Records(from)
	for {
		o, raw, ok := records.Next()
		if !ok {
			return found
		}
		m, err := record.Decode(raw)
		if err != nil || m.Address == nil && (m.Delay == 0 || kinds&attrDeferred == 0) {
			continue
		}
		a := arrival{offset: o, to: m.Address}
		if rest := p.rest(b, o, m.Delay, now); rest > 0 {
			a.due = now.Add(rest)
		}
		found = append(found, a)
	}
}
