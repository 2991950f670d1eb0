package broker

import (
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
// the time of day does not stretch it.
type lease struct {
	span      time.Duration
	contact   func() time.Time // with the quorum
	named     func() bool      // the metadata here says that this node leads in the epoch
	confirmed func() time.Time // by the in-sync replicas; set once, before anybody asks
	epoch     seq.Epoch        // of the term; set with confirmed
	base      time.Time
	until     atomic.Int64 // since base, in ns
	ended     atomic.Bool  // there is a later leader
	lapsed    atomic.Bool  // somebody was refused since it was last renewed
}

func newLease(span time.Duration, contact func() time.Time, named func() bool) *lease {
	l := &lease{span: span, contact: contact, named: named, base: time.Now()}
	l.until.Store(-1)
	return l
}

// held says whether the lease holds at now.
func (l *lease) held(now time.Time) bool {
	if l.holds(now) || l.renew(now) {
		return true
	}
	l.lapsed.Store(true)
	return false
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
	if c := l.confirmed(); !c.IsZero() && l.named() {
		l.extend(int64(c.Sub(l.base) + l.span))
	}
	l.touched(l.contact())
	return l.holds(now)
}

// touched notes when the node was last in touch with the quorum, before the call.
// That is how a lease that nobody asks for goes on without a gap.
func (l *lease) touched(last time.Time) {
	if at := last.Sub(l.base); !last.IsZero() && int64(at) <= l.until.Load() && l.named() {
		l.extend(int64(at + l.span))
	}
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
