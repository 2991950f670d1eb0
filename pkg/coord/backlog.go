package coord

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// backlog holds the entries that a term has accepted and not committed. The term's lock guards it.
type backlog struct {
	queue   []*group // in order
	bytes   int
	taken   int  // part of the node's budget in use
	stalled bool // the first in queue has waited too long
}

func (b *backlog) add(g *group) {
	b.queue = append(b.queue, g)
	b.bytes += g.size
	b.taken += g.taken
}

// makeRoom reserves room for an entry, here and in the node's budget, and reports whether there was
// any; waited means that this is a retry. A term that holds nothing does not wait for others to
// release bytes: its entry is refused.
func (b *backlog) makeRoom(o *termOptions, forming *group, size int, waited bool) (bool, error) {
	held := b.taken
	if forming != nil {
		if forming.builder.Size() >= o.Sizes.Forming {
			return false, nil
		}
		held += forming.taken
	}
	if b.bytes >= MaxUncommitted {
		return false, nil
	}
	if o.Budget.reserve(held, size) {
		return true, nil
	}
	if !waited {
		o.Budget.refused()
	}
	if held == 0 {
		return false, failure.Uncommitted
	}
	return false, nil
}

// popDecided removes the groups with a known outcome from the queue. Later groups that have waited
// too long, or were refused after such a group, are late: their entries are completed, and they
// stay in the queue until they are committed. The bytes of decided groups are returned to the
// budget.
func (b *backlog) popDecided(committed seq.Offset, ended bool, budget *Budget) (decided, late []*group) {
	n := 0
	for n < len(b.queue) && b.queue[n].decide(committed, ended) {
		g := b.queue[n]
		b.bytes, b.taken = b.bytes-g.size, b.taken-g.taken
		budget.giveBack(g.taken)
		n++
	}
	decided, b.queue = b.queue[:n:n], b.queue[n:]
	if len(b.queue) == 0 {
		b.queue, b.stalled = nil, false
		return decided, nil
	}
	if n > 0 {
		b.stalled = b.queue[0].expired
	}
	if !b.stalled {
		return decided, nil
	}
	for _, g := range b.queue {
		if g.lateness() == nil {
			break
		}
		if !g.told {
			g.told = true
			late = append(late, g.late())
		}
	}
	return decided, late
}

// expire marks groups that have waited too long, and reports whether there are any.
func (b *backlog) expire(now time.Time, limit time.Duration) bool {
	if len(b.queue) == 0 || now.Sub(b.queue[0].since) < limit {
		return false
	}
	for _, g := range b.queue {
		g.expired = now.Sub(g.since) >= limit
	}
	b.stalled = true
	return true
}

// group is the entries of one batch, until they are completed and committed. The term's lock guards
// it.
type group struct {
	builder commitlog.Builder
	entries []placedEntry
	size    int        // bytes of the batch
	taken   int        // bytes of its entries that count against the node's budget
	since   time.Time  // when it was taken to be appended
	first   seq.Offset // where the batch begins; only this group can be written there
	batch   commitlog.Batch
	written bool  // the batch is in the log
	expired bool  // it has waited too long to be committed
	told    bool  // its entries are completed
	err     error // with which the entries complete, if they are not committed

	one [1]placedEntry // backing array of entries, for a group of one entry
}

type placedEntry struct {
	entry commitlog.Entry
	index int // of its first record in the batch
}

// decide reports whether the outcome of the group is known. If it is in the log and not committed
// when the term ends, a later term may commit it.
func (g *group) decide(committed seq.Offset, ended bool) bool {
	switch {
	case g.err != nil:
	case !g.written:
		return false
	case ended:
		g.err = failure.Unconfirmed
	case g.batch.End() > committed:
		return false
	}
	return true
}

// lateness returns the error with which entries of an uncommitted group complete, or nil while they
// wait. A group that is being written may be in the log.
func (g *group) lateness() error {
	if g.err == nil && g.expired {
		return failure.Unconfirmed
	}
	return g.err
}

// late returns a late group with the entries of this one, which may still be being written: if the
// write fails without an effect, it is repeated, so the entries get no other place.
func (g *group) late() *group {
	l := &group{entries: g.entries, first: g.first, batch: g.batch, written: g.written || g.err == nil, err: g.lateness()}
	g.entries = nil
	return l
}

// complete completes the entries, once.
func (g *group) complete(err error) {
	at := commitlog.Placed{Written: g.written}
	if g.written {
		at.Position = g.batch.Position()
	}
	for _, e := range g.entries {
		if g.written {
			at.First = g.first + seq.Offset(e.index)
		}
		e.entry.Complete(at, err)
	}
	g.entries = nil
}

// tellCatchUp reports how long groups took to be committed. lacking means that replicas of the
// partition are not in sync.
func tellCatchUp(c *replication.CatchUp, now time.Time, decided []*group, lacking bool) {
	for _, g := range decided {
		if g.err != nil {
			continue
		}
		bytes := 0
		if lacking {
			bytes = g.size
		}
		c.Committed(g.since, now, bytes)
	}
}
