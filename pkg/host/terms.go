package host

import (
	"context"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/lease"
)

const (
	// termTick is the period of ticks to terms that have followers, unless they are idle.
	termTick = 100 * time.Millisecond
	// calmTick is how often the contact with a quorum is checked while all terms are idle.
	calmTick = 400 * time.Millisecond
	// expireEvery is how often terms without other replicas, which need no ticks, are searched for
	// publishes that have waited too long.
	expireEvery = time.Second
	// quietSoon is the age of the contact from which on it is checked at every termTick, so that
	// terms learn in time that it is coord.QuietQuorum old.
	quietSoon = coord.QuietQuorum - calmTick/2
)

// terms are the led partitions with other replicas, which need ticks. They cost nothing while they
// are idle.
type terms struct {
	contact *lease.Contact
	wakeup  chan struct{} // signals that a term became active

	mu     sync.Mutex // guards what follows
	shared map[*coord.Term]*Led
	active map[*coord.Term]*Led // those of them that need ticks
}

func newTerms(c *lease.Contact) *terms {
	return &terms{
		contact: c, wakeup: make(chan struct{}, 1),
		shared: map[*coord.Term]*Led{}, active: map[*coord.Term]*Led{},
	}
}

// track adds a led partition if it has other replicas, and removes it otherwise.
func (t *terms) track(lp *Led) {
	if !lp.Term.Shared() {
		t.forget(lp)
		return
	}
	t.mu.Lock()
	t.shared[lp.Term] = lp
	t.mu.Unlock()
	t.activate(lp.Term)
}

func (t *terms) forget(lp *Led) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shared, lp.Term)
	delete(t.active, lp.Term)
}

// activate requests ticks for a term until it is idle. A term that is not tracked yet is active when
// it is. It does not block.
func (t *terms) activate(term *coord.Term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lp, ok := t.shared[term]
	if !ok {
		return
	}
	t.active[term] = lp
	if len(t.active) == 1 {
		signal.Poke(t.wakeup)
	}
}

// list appends to buf the partitions that need a tick: all, or those that are not idle, whose
// requests it clears.
func (t *terms) list(buf []*Led, all bool) []*Led {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.active
	if all {
		from = t.shared
	}
	for _, lp := range from {
		buf = append(buf, lp)
	}
	clear(t.active)
	return buf
}

// busy reports whether a term is active.
func (t *terms) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.active) > 0
}

// run ticks the terms until ctx ends, with the time of the node's last contact with a quorum. It
// wakes consumers of a partition whose lease holds again.
func (t *terms) run(ctx context.Context) {
	var due []*Led
	var before time.Time // beginning of the contact at the last round
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
		gap := !since.Equal(before) // every lease must begin again
		before = since
		clear(due)
		due = t.list(due[:0], gap || now.Sub(last) > coord.QuietQuorum)
		for _, lp := range due {
			lp.tick(now, last)
			if !lp.idle() {
				t.activate(lp.Term)
			}
		}
		pause = calmTick
		if t.busy() || now.Sub(last) > quietSoon {
			pause = termTick
		}
		timer.Reset(beat.Until(now, pause))
	}
}

// idle records that the term needs no tick until it is active.
func (lp *Led) idle() bool {
	return lp.Term.Idle() && (lp.Lease == nil || !lp.Lease.Lapsed())
}

// tick passes the time, and the node's last contact with a quorum, to a term. If that contact does
// not suffice for its lease, it asks its replicas to confirm the lease.
func (lp *Led) tick(now, contact time.Time) {
	if lp.Lease == nil {
		lp.Term.Tick(now, contact)
		return
	}
	if !lp.Lease.Holds(now) {
		contact = time.Time{}
	}
	lp.Term.Tick(now, contact)
	if lp.Lease.Regained(now) {
		lp.Part.Gate.Wake()
	}
}

// expire completes publishes that have waited too long in terms without other replicas. If nothing on
// the node is uncommitted, it looks at none.
func (rs *roles) expire() {
	if used, _, _ := rs.budget.Usage(); used == 0 {
		return
	}
	now := time.Now()
	rs.topics.EachHeld(func(_ *Topic, hp *Held) {
		if lp := hp.Led.Load(); lp != nil && !lp.Term.Shared() {
			coord.Expire(lp.Term, now)
		}
	})
}
