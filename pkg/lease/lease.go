package lease

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Lease says until when this node may deliver and handle answers as the leader of a partition. It
// begins when every in-sync replica has recognised the term: none of them followed a later leader
// then. It continues while the node is in touch, without a gap longer than the lease, with a quorum
// of the metadata or with all in-sync replicas: a later leader leads only after one of them knew of
// it. In touch with the quorum means that everything decided until then is applied here and names
// no other leader, however long the partition's role takes to follow. Contact after a gap says
// nothing about the time between.
//
// It ends permanently when this node learns of a later leader, which may be long before the
// metadata on this node says so.
//
// It uses the monotonic clock, so that neither a pause of the process nor a change of the time of
// day extends it. That clock stops while the machine is suspended: earlier confirmations no longer
// count after a suspension.
type Lease struct {
	contact   *Contact
	epoch     seq.Epoch        // of the term
	named     func() bool      // the metadata here says that this node leads in the epoch
	confirmed func() time.Time // by the in-sync replicas; set by Begin
	refused   func()           // called when lapsed becomes true; likewise
	base      time.Time
	until     atomic.Int64 // since base, in ns; never
	from      atomic.Int64 // likewise: what was confirmed before does not count
	ended     atomic.Bool  // there is a later leader
	lapsed    atomic.Bool  // Held refused a caller since it was last renewed
}

// never is the end of a lease that has not begun.
const never = math.MinInt64

// New returns the lease of a term. named reports whether the metadata on this node
// says that it leads in that epoch. No other method may be called before Begin.
func New(c *Contact, epoch seq.Epoch, named func() bool) *Lease {
	l := &Lease{contact: c, epoch: epoch, named: named, base: time.Now()}
	l.until.Store(never)
	l.from.Store(never)
	return l
}

// Begin begins the lease. confirmed returns when the in-sync replicas last confirmed
// the term; refused is called when Held refuses a caller, once until Regained. Begin
// is called once.
func (l *Lease) Begin(confirmed func() time.Time, refused func()) {
	l.confirmed, l.refused = confirmed, refused
}

// Held reports whether the lease holds at now, so that this node may deliver. Regained
// reports to a caller that was refused when the lease holds again.
func (l *Lease) Held(now time.Time) bool {
	if l.Holds(now) {
		return true
	}
	if !l.lapsed.Swap(true) && l.refused != nil {
		l.refused()
	}
	return false
}

// Holds reports whether the lease holds at now. Unlike Held, it does not count
// as a refusal.
func (l *Lease) Holds(now time.Time) bool {
	l.look(now)
	return l.holds(now) || l.renew(now)
}

// Lapsed reports whether Held has refused a caller since Regained found the lease to
// hold.
func (l *Lease) Lapsed() bool { return l.lapsed.Load() }

// look ends the lease if the machine was suspended. It may begin again.
func (l *Lease) look(now time.Time) {
	woke := l.contact.suspended.Last(now)
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

func (l *Lease) holds(now time.Time) bool {
	return int64(now.Sub(l.base)) <= l.until.Load() && !l.ended.Load()
}

// Superseded records that there is a leader of an epoch. It ends the lease of
// an earlier epoch. A nil lease never ends.
func (l *Lease) Superseded(by seq.Epoch) {
	if l != nil && l.epoch < by {
		l.ended.Store(true)
	}
}

// renew recomputes until when the lease holds, and reports whether it holds at
// now.
func (l *Lease) renew(now time.Time) bool {
	l.look(now)
	from := l.from.Load()
	confirmed := l.confirmed()
	since, last := l.contact.Unbroken()
	if !l.named() { // read last: a leader that is named now was named then
		return l.holds(now)
	}
	if !confirmed.IsZero() && int64(confirmed.Sub(l.base)) >= from {
		l.extend(int64(confirmed.Sub(l.base) + l.contact.span))
	}
	if until := l.until.Load(); until != never && !last.IsZero() && int64(since.Sub(l.base)) <= until {
		l.extend(int64(last.Sub(l.base) + l.contact.span))
	}
	if l.from.Load() != from { // the contact that was just counted may be from before a suspension
		l.until.Store(never)
	}
	return l.holds(now)
}

func (l *Lease) extend(until int64) {
	for {
		was := l.until.Load()
		if was >= until || l.until.CompareAndSwap(was, until) {
			return
		}
	}
}

// Regained reports whether the lease holds again after Held refused a caller.
func (l *Lease) Regained(now time.Time) bool {
	return l.lapsed.Load() && l.renew(now) && l.lapsed.Swap(false)
}

// Contact is this node's contact with a quorum of the metadata, for all leases
// together: Unbroken is called periodically, so that an unused lease continues
// without a gap.
type Contact struct {
	span      time.Duration    // of a lease: a longer time without contact is a gap
	latest    func() time.Time // contact; the zero time: never
	suspended *Suspension      // the machine; nil: never

	mu          sync.Mutex // guards what follows
	since, last time.Time
}

// NewContact returns the contact for leases that hold for a span. latest says when this
// node was last in contact, with the zero time for never; s is the machine's, nil if it
// is never suspended.
func NewContact(span time.Duration, latest func() time.Time, s *Suspension) *Contact {
	return &Contact{span: span, latest: latest, suspended: s}
}

// Unbroken asks for the latest contact, and returns since when there has been no gap,
// and when it was last; zero times: never.
func (c *Contact) Unbroken() (since, last time.Time) {
	at := c.latest()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last) {
		if c.last.IsZero() || at.Sub(c.last) > c.span {
			c.since = at
		}
		c.last = at
	}
	return c.since, c.last
}
