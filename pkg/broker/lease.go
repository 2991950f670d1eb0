package broker

import (
	"sync/atomic"
	"time"
)

// lease says until when this node may deliver and take answers as the leader of
// a partition: as long as it was in touch, not longer than the lease ago, with a
// quorum of the metadata or with every in-sync replica. Whoever else is elected
// leads only after one of them knew. It goes by the monotonic clock, so that a
// pause of the process or a change of the time of day does not stretch it.
type lease struct {
	span      time.Duration
	contact   func() time.Time // with the quorum
	confirmed func() time.Time // by the in-sync replicas; set once, before anybody asks
	base      time.Time
	until     atomic.Int64 // since base, in ns
	lapsed    atomic.Bool  // somebody was refused since it was last renewed
}

func newLease(span time.Duration, contact func() time.Time) *lease {
	l := &lease{span: span, contact: contact, base: time.Now()}
	l.until.Store(-1)
	return l
}

// held says whether the lease holds at now.
func (l *lease) held(now time.Time) bool {
	if int64(now.Sub(l.base)) <= l.until.Load() || l.renew(now) {
		return true
	}
	l.lapsed.Store(true)
	return false
}

// renew asks anew how long the lease holds, and returns whether it does at now.
func (l *lease) renew(now time.Time) bool {
	last := l.contact()
	if c := l.confirmed(); c.After(last) {
		last = c
	}
	if last.IsZero() {
		return false
	}
	until := int64(last.Sub(l.base) + l.span)
	l.until.Store(until)
	return int64(now.Sub(l.base)) <= until
}

// regained says whether the lease holds again after somebody was refused.
func (l *lease) regained(now time.Time) bool {
	return l != nil && l.lapsed.Load() && l.renew(now) && l.lapsed.Swap(false)
}
