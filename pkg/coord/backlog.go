package coord

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/seq"
)

// backlog is what a term has taken to be appended and has not committed. The term's
// lock guards it.
type backlog struct {
	queue   []*group // in order
	bytes   int
	taken   int  // of the node's budget
	stalled bool // the first in queue has waited for too long
}

func (b *backlog) add(g *group) {
	b.queue = append(b.queue, g)
	b.bytes += g.size
	b.taken += g.taken
}

// makeRoom takes room for an entry, here and in the node's budget, and returns
// whether there was any; waited: it is asked again. A term that holds nothing does
// not wait until others have given back: that is refused.
func (b *backlog) makeRoom(o *termOptions, forming *group, size int, waited bool) (bool, error) {
	held := b.taken
	if forming != nil {
		if forming.builder.Size() >= o.Sizes.Forming {
			return false, nil
		}
		held += forming.taken
	}
	if b.bytes >= o.MaxUncommitted {
		return false, nil
	}
	if o.Budget.reserve(held, size) {
		return true, nil
	}
	if !waited {
		o.Budget.refused()
	}
	if held == 0 {
		return false, ErrBusy
	}
	return false, nil
}

// popDecided takes the groups off the queue of which it is known what became of them.
// Those behind that have waited too long, or were refused behind such, are late:
// they are settled, and stay in the queue until they are committed. What is decided
// goes back to the budget.
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
			late = append(late, g)
		}
	}
	return decided, late
}

// expire notes who has waited for too long, and returns whether anybody has.
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

// group is the entries of one batch, until they are settled and committed. The
// term's lock guards it.
type group struct {
	builder *commitlog.Builder
	entries []placedEntry
	size    int       // bytes of the batch
	taken   int       // bytes of its entries, of the node's budget
	since   time.Time // when it was taken to be appended
	batch   commitlog.Batch
	written bool  // batch is in the log
	expired bool  // it has waited too long to be committed
	told    bool  // its entries are settled
	err     error // what the entries are told, if they are not committed
}

type placedEntry struct {
	entry commitlog.Entry
	index int // of its first record in the batch
}

// decide reports whether it is known what became of the group. One that is in the
// log and not committed when the term ends may be committed by a later one.
func (g *group) decide(committed seq.Offset, ended bool) bool {
	switch {
	case g.err != nil:
	case !g.written:
		return false
	case ended:
		g.err = ErrUnknownOutcome
	case g.batch.End() > committed:
		return false
	}
	return true
}

// lateness returns what the entries of a group are told that is not committed,
// or nil while they wait.
func (g *group) lateness() error {
	if g.err == nil && g.expired && g.written {
		return ErrUnknownOutcome
	}
	return g.err
}

// complete tells the entries what became of them, once.
func (g *group) complete(err error) {
	at := commitlog.Placed{Written: g.written}
	if g.written {
		at.Position = g.batch.Position()
	}
	for _, e := range g.entries {
		if g.written {
			at.First = g.batch.First() + seq.Offset(e.index)
		}
		e.entry.Complete(at, err)
	}
	g.entries = nil
}

// tellCatchUp tells how long groups took to be committed. lacking: replicas of the
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
