package broker

import (
	"context"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/lease"
)

const (
	// termTick is how often terms that have followers are told what time it is,
	// unless they have nothing to do.
	termTick = 100 * time.Millisecond
	// calmTick is how often it is looked whether this node is in touch with a
	// quorum while no term has anything to do.
	calmTick = 400 * time.Millisecond
	// quietSoon is the age of the contact from which on it is looked at with every
	// termTick, so that terms learn in time that it is coord.QuietQuorum ago.
	quietSoon = coord.QuietQuorum - calmTick/2
)

// terms are the led partitions that have other replicas: those that need to be
// told the time. They cost nothing while they are idle.
type terms struct {
	contact *lease.Contact
	wakeup  chan struct{} // a term was stirred

	mu      sync.Mutex // guards what follows
	shared  map[*coord.Term]*ledPartition
	stirred map[*coord.Term]*ledPartition // of those, the ones that need to be told
}

func newTerms(c *lease.Contact) *terms {
	return &terms{
		contact: c, wakeup: make(chan struct{}, 1),
		shared: map[*coord.Term]*ledPartition{}, stirred: map[*coord.Term]*ledPartition{},
	}
}

// note adds a led partition if it has other replicas, and else takes it out.
func (t *terms) note(lp *ledPartition) {
	if !lp.term.Shared() {
		t.forget(lp)
		return
	}
	t.mu.Lock()
	t.shared[lp.term] = lp
	t.mu.Unlock()
	t.stir(lp.term)
}

func (t *terms) forget(lp *ledPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shared, lp.term)
	delete(t.stirred, lp.term)
}

// stir has a term told the time until it is idle. One that is not noted yet is
// stirred then. It does not block.
func (t *terms) stir(term *coord.Term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lp, ok := t.shared[term]
	if !ok {
		return
	}
	t.stirred[term] = lp
	if len(t.stirred) == 1 {
		select {
		case t.wakeup <- struct{}{}:
		default:
		}
	}
}

// list appends those to buf that are to be told the time: all, or those that are
// not idle, which are asked for anew.
func (t *terms) list(buf []*ledPartition, all bool) []*ledPartition {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.stirred
	if all {
		from = t.shared
	}
	for _, lp := range from {
		buf = append(buf, lp)
	}
	clear(t.stirred)
	return buf
}

// busy says whether a term is stirred.
func (t *terms) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.stirred) > 0
}

// run tells the terms the time until ctx ends, and when this node was last in
// touch with a quorum. Consumers of a partition whose lease holds again are
// woken.
func (t *terms) run(ctx context.Context) {
	var due []*ledPartition
	var before time.Time // the beginning of the contact, at the last round
	pause := termTick
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wakeup:
			if pause > termTick {
				pause = termTick
				timer.Reset(beat.Until(time.Now(), pause))
			}
			continue
		case <-timer.C:
		}
		since, last := t.contact.Unbroken()
		now := time.Now()
		gap := !since.Equal(before) // every lease is to begin anew
		before = since
		clear(due)
		due = t.list(due[:0], gap || now.Sub(last) > coord.QuietQuorum)
		for _, lp := range due {
			lp.tick(now, last)
			if !lp.idle() {
				t.stir(lp.term)
			}
		}
		pause = calmTick
		if t.busy() || now.Sub(last) > quietSoon {
			pause = termTick
		}
		timer.Reset(beat.Until(now, pause))
	}
}

// idle says that telling the time can wait until somebody stirs the term.
func (lp *ledPartition) idle() bool {
	return lp.term.Idle() && (lp.lease == nil || !lp.lease.Lapsed())
}

// tick tells a term the time, and when this node was last in touch with a
// quorum. Where that does not do for its lease, its replicas are to confirm it.
func (lp *ledPartition) tick(now, contact time.Time) {
	if lp.lease == nil {
		lp.term.Tick(now, contact)
		return
	}
	if !lp.lease.Holds(now) {
		contact = time.Time{}
	}
	lp.term.Tick(now, contact)
	if lp.lease.Regained(now) {
		lp.part.Wake()
	}
}
