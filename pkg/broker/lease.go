package broker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// lease says until when this node may deliver and take answers as the leader of
// a partition. It begins when every in-sync replica has recognised the term: none
// of them followed a later leader then. It goes on while the node is in touch,
// without a gap longer than the lease, with a quorum of the metadata or with all
// in-sync replicas: whoever else is elected leads only after one of them knew.
// In touch with the quorum means that all that was decided until then is applied
// here, and names no other leader, however long it takes until the partition's
// role follows. After a gap, that says nothing about the time between.
//
// It ends for good when a later leader is heard of, which may be long before the
// metadata here says so.
//
// It goes by the monotonic clock, so that a pause of the process or a change of
// the time of day does not stretch it. That clock stands still while the machine is
// suspended: what was confirmed before counts no more behind that.
type lease struct {
	touch     *touch
	named     func() bool      // the metadata here says that this node leads in the epoch
	confirmed func() time.Time // by the in-sync replicas; set once, before anybody asks
	refused   func()           // is told when lapsed becomes true; likewise
	epoch     seq.Epoch        // of the term; set with confirmed
	base      time.Time
	until     atomic.Int64 // since base, in ns; never
	from      atomic.Int64 // likewise: what was confirmed before does not count
	ended     atomic.Bool  // there is a later leader
	lapsed    atomic.Bool  // somebody was refused since it was last renewed
}

// never is until when a lease holds that has not begun.
const never = math.MinInt64

func newLease(t *touch, named func() bool) *lease {
	l := &lease{touch: t, named: named, base: time.Now()}
	l.until.Store(never)
	l.from.Store(never)
	return l
}

// held says whether the lease holds at now.
func (l *lease) held(now time.Time) bool {
	l.look(now)
	if l.holds(now) || l.renew(now) {
		return true
	}
	if !l.lapsed.Swap(true) && l.refused != nil {
		l.refused()
	}
	return false
}

// look ends the lease if the machine was suspended. It may begin anew.
func (l *lease) look(now time.Time) {
	woke := l.touch.suspended.look(now)
	if woke.IsZero() {
		return
	}
	at := int64(woke.Sub(l.base))
	for {
		from := l.from.Load()
		if from >= at {
			return
		}
		if l.from.CompareAndSwap(from, at) {
			l.until.Store(never)
			return
		}
	}
}

func (l *lease) holds(now time.Time) bool {
	return int64(now.Sub(l.base)) <= l.until.Load() && !l.ended.Load()
}

// superseded notes that there is a leader of an epoch. It ends the lease of an
// earlier one.
func (l *lease) superseded(by seq.Epoch) {
	if l != nil && l.epoch < by {
		l.ended.Store(true)
	}
}

// renew asks anew how long the lease holds, and returns whether it does at now.
func (l *lease) renew(now time.Time) bool {
	l.look(now)
	from := l.from.Load()
	confirmed := l.confirmed()
	since, last := l.touch.stretch()
	if !l.named() { // asked last: who is named now was named then
		return l.holds(now)
	}
	if !confirmed.IsZero() && int64(confirmed.Sub(l.base)) >= from {
		l.extend(int64(confirmed.Sub(l.base) + l.touch.span))
	}
	if until := l.until.Load(); until != never && !last.IsZero() && int64(since.Sub(l.base)) <= until {
		l.extend(int64(last.Sub(l.base) + l.touch.span))
	}
	if l.from.Load() != from { // what was just counted may be from before a suspension
		l.until.Store(never)
	}
	return l.holds(now)
}

func (l *lease) extend(until int64) {
	for {
		was := l.until.Load()
		if was >= until || l.until.CompareAndSwap(was, until) {
			return
		}
	}
}

// regained says whether the lease holds again after somebody was refused.
func (l *lease) regained(now time.Time) bool {
	return l.lapsed.Load() && l.renew(now) && l.lapsed.Swap(false)
}

// touch is this node's contact with a quorum of the metadata, for all leases
// together: it is looked at again and again, so that a lease that nobody asks for
// goes on without a gap.
type touch struct {
	span      time.Duration    // of a lease: a longer time without contact is a gap
	contact   func() time.Time // when it was last; the zero time: never
	suspended *suspension      // the machine; nil: never

	mu          sync.Mutex // guards what follows
	since, last time.Time
}

func newTouch(span time.Duration, contact func() time.Time) *touch {
	return &touch{span: span, contact: contact}
}

// stretch looks at the contact, and returns since when it has been without a gap,
// and when it was last; zero times: never.
func (t *touch) stretch() (since, last time.Time) {
	at := t.contact()
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.last) {
		if t.last.IsZero() || at.Sub(t.last) > t.span {
			t.since = at
		}
		t.last = at
	}
	return t.since, t.last
}
