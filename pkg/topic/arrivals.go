package topic

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// addressedWithin bounds the bytes appended between two records of how far the channels know of
// addressed messages: the next leader scans that much.
const addressedWithin = 4 << 20

// arrival is a message in the log that channels must be notified of: an addressed one, or one that
// its publisher deferred.
type arrival struct {
	offset seq.Offset
	to     *record.Address // nil: for all channels
	due    time.Time       // until when it is deferred; zero: not deferred
}

// arrivals notifies the channels of committed addressed messages, each of them exactly once: the
// addressed channel gets the message and finishes the one that it replaces, and the others skip it.
// Messages that the restored positions do not cover are read from the log, with those deferred
// since. The partition's mutex guards it, except notified.
type arrivals struct {
	notified atomic.Uint64 // channels were notified of everything below, and see nothing beyond
	noted    int64         // log position at which that was last stored; used by the caller of Committed

	served  bool
	settled bool        // all channels exist
	since   seq.Offset  // end of what the restored positions cover
	found   []arrival   // in the log since then, until every channel was notified
	unsure  atomic.Bool // some of found are addressed and not committed: nothing is delivered before they are
}

// unnotified reports whether channels must still be notified of found messages: of addressed ones, or of any.
func (a *arrivals) unnotified(addressed bool) bool {
	return slices.ContainsFunc(a.found, func(at arrival) bool { return uint64(at.offset) >= a.notified.Load() && (at.to != nil || !addressed) })
}

// covered returns the offset up to which the channels' positions cover addressed messages.
func (a *arrivals) covered() seq.Offset {
	if !a.settled || a.unsure.Load() {
		return a.since
	}
	return seq.Offset(a.notified.Load())
}

// passed records that the channels were notified of a batch.
func (a *arrivals) passed(b commitlog.Batch, keeper *positions.Keeper) {
	a.notified.Store(uint64(b.End()))
	if at := b.Position(); at-a.noted >= addressedWithin || at < a.noted {
		a.noted = at
		keeper.MarkDirty()
	}
}

// notifyNew notifies a channel, which no other goroutine knows yet, of the found messages. It reports
// whether ticks must be requested.
func (a *arrivals) notifyNew(c *Channel) (arm bool) {
	for i := range a.found {
		if at := &a.found[i]; at.offset < seq.Offset(a.notified.Load()) {
			arm = at.notify(c, c.p.o.Now(), true) || arm
		}
	}
	return arm
}

// complete records that all channels exist. It reports whether the positions now cover more than before.
func (a *arrivals) complete() bool {
	more := !a.settled && a.since != seq.Offset(a.notified.Load())
	a.settled = true
	if !a.unnotified(false) {
		a.found = nil
	}
	return more
}

// inherit finds messages that the positions do not cover. A committed copy may replace a message
// that would otherwise be delivered.
func (a *arrivals) inherit(p *Partition) {
	from := a.since
	if p.lost && len(p.restored) == 0 {
		from = p.o.Log.End() // the channels start over, and skip what they meet
	}
	found := arrivalsSince(p, max(from, p.o.Log.Start()))
	p.mu.Lock()
	defer p.mu.Unlock()
	a.found, a.served = found, true
	a.notified.Store(uint64(p.o.Log.CommittedEnd()))
	a.unsure.Store(a.unnotified(true))
}

// inherited notifies the channels of found messages of an earlier term that are now committed.
func (a *arrivals) inherited(p *Partition) {
	p.mu.Lock()
	if !a.served {
		p.mu.Unlock()
		return // Serve handles it
	}
	var armed []*Channel
	notified, end := seq.Offset(a.notified.Load()), p.o.Log.CommittedEnd()
	for i := range a.found {
		if at := &a.found[i]; at.offset >= notified && at.offset < end {
			armed = at.notifyAll(p, true, armed)
		}
	}
	a.notified.Store(uint64(max(notified, end)))
	was := a.unsure.Load()
	a.unsure.Store(a.unnotified(true))
	if a.settled && !a.unnotified(false) {
		a.found = nil
	}
	p.mu.Unlock()
	p.keeper.MarkDirty()
	for _, c := range armed {
		c.arm(true)
	}
	if was {
		p.Gate.Wake()
	}
}

// arrived notifies the channels of the addressed messages in a committed batch. A snapshot covers
// either all or none of them.
func (a *arrivals) arrived(p *Partition, b commitlog.Batch) {
	found := arrivalsIn(p, b, b.First(), attrAddressed, nil)
	var armed []*Channel
	p.mu.Lock()
	for i := range found {
		armed = found[i].notifyAll(p, false, armed)
	}
	a.notified.Store(uint64(b.End()))
	p.mu.Unlock()
	p.keeper.MarkDirty()
	p.Gate.messageLeft()
	for _, c := range armed {
		c.arm(true)
	}
}

// notifyAll notifies all channels of a partition, whose lock is held, and adds those that need ticks to armed.
func (a *arrival) notifyAll(p *Partition, inherited bool, armed []*Channel) []*Channel {
	now := p.o.Now()
	for _, c := range p.channels {
		if a.notify(c, now, inherited) {
			armed = append(armed, c)
		}
	}
	return armed
}

// notify notifies a channel. It reports whether ticks must be requested.
func (a *arrival) notify(c *Channel, now time.Time, inherited bool) (arm bool) {
	rest := time.Duration(0)
	if !a.due.IsZero() {
		rest = max(0, a.due.Sub(now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.to == nil && rest == 0: // it is already due
	case a.to == nil:
		c.state.Defer(a.offset, now, rest)
	case !c.HasVersion(a.to.Channel):
		c.state.Arrivals().Skip(a.offset)
	case a.to.Moves:
		c.state.Arrivals().Move(channel.Copy{From: a.to.Offset, To: a.offset, Attempts: a.to.Attempts, Rest: rest, Inherited: inherited}, now)
	default:
		c.state.Arrivals().Add(a.offset, a.to.Attempts, now, rest)
	}
	return c.armLocked()
}

// HasVersion reports whether messages that are addressed to a version of a channel are for this one.
func (c *Channel) HasVersion(to uint64) bool {
	return to == c.version || slices.Contains(*c.former.Load(), to)
}

// arrivalsSince returns the addressed and the deferred messages from an offset on, committed or
// not. Unreadable messages are handled at their delivery.
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

// arrivalsIn appends to found the messages of a batch from an offset on that are of the given kinds
// (attributes of batches).
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
