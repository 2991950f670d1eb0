package host

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
	shared  map[*coord.Term]*Led
	stirred map[*coord.Term]*Led // of those, the ones that need to be told
}

func newTerms(c *lease.Contact) *terms {
	return &terms{
		contact: c, wakeup: make(chan struct{}, 1),
		shared: map[*coord.Term]*Led{}, stirred: map[*coord.Term]*Led{},
	}
}

// track adds a led partition if it has other replicas, and else takes it out.
func (t *terms) track(lp *Led) {
	if !lp.Term.Shared() {
		t.forget(lp)
		return
	}
	t.mu.Lock()
	t.shared[lp.Term] = lp
	t.mu.Unlock()
	t.stir(lp.Term)
}

func (t *terms) forget(lp *Led) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shared, lp.Term)
	delete(t.stirred, lp.Term)
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
// not idle, which are asked for again.
func (t *terms) list(buf []*Led, all bool) []*Led {
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

// busy reports whether a term is stirred.
func (t *terms) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.stirred) > 0
}

// run tells the terms the time until ctx ends, and when this node was last in
// touch with a quorum. Consumers of a partition whose lease holds again are
// woken.
func (t *terms) run(ctx context.Context) {
	var due []*Led
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
		gap := !since.Equal(before) // every lease is to begin again
		before = since
		clear(due)
		due = t.list(due[:0], gap || now.Sub(last) > coord.QuietQuorum)
		for _, lp := range due {
			lp.tick(now, last)
			if !lp.idle() {
				t.stir(lp.Term)
			}
		}
		pause = calmTick
		if t.busy() || now.Sub(last) > quietSoon {
			pause = termTick
		}
		timer.Reset(beat.Until(now, pause))
	}
}

// idle says that telling the time can wait until someone stirs the term.
func (lp *Led) idle() bool {
	return lp.Term.Idle() && (lp.lease == nil || !lp.lease.Lapsed())
}

// tick tells a term the time, and when this node was last in touch with a
// quorum. Where that does not do for its lease, its replicas are to confirm it.
func (lp *Led) tick(now, contact time.Time) {
	if lp.lease == nil {
		lp.Term.Tick(now, contact)
		return
	}
	if !lp.lease.Holds(now) {
		contact = time.Time{}
	}
	lp.Term.Tick(now, contact)
	if lp.lease.Regained(now) {
		lp.Part.Wake()
	}
}
