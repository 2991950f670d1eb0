package limit

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

const (
	allCreations   = 2 // factor of the limit of all addresses together
	creationsTell  = 10 * time.Second
	fewestForSweep = 64 // addresses, before inactive ones are removed
)

// Creations limits how fast clients create partitions of topics and channels: each address, and all addresses
// together. After a burst, creations are allowed again at the rate. Its methods are safe for
// concurrent use; a nil Creations has no limit.
type Creations struct {
	one, all pace
	log      *slog.Logger

	mu    sync.Mutex // guards the fields below
	used  time.Time  // until when the rate of all addresses is used up
	of    map[netip.Prefix]time.Time
	sweep int       // number of addresses at which those with their full burst are removed
	told  time.Time // when a refusal was last logged
	since uint64    // refusals since then
	ever  uint64    // refusals
}

// pace is a rate, as the time per creation, and a burst, as the time of all its creations.
type pace struct{ each, burst time.Duration }

// after returns until when the rate is used up after n more creations at once, and whether they are allowed. More than
// the burst are allowed when nothing of it is used; what exceeds it is regained like the rest.
func (p pace) after(used, now time.Time, n int) (time.Time, bool) {
	if used.Before(now) {
		used = now
	}
	need := time.Duration(n) * p.each
	return used.Add(need), used.Sub(now)+min(need, p.burst) <= p.burst
}

// NewCreations returns limits of a burst per address, of which one creation is regained each time
// each has passed; nil if burst is 0.
func NewCreations(burst int, each time.Duration, log *slog.Logger) *Creations {
	if burst == 0 {
		return nil
	}
	return &Creations{
		one: pace{each, time.Duration(burst) * each},
		all: pace{each / allCreations, time.Duration(burst) * each},
		log: log, of: map[netip.Prefix]time.Time{}, sweep: fewestForSweep,
	}
}

// Refused returns the number of refused creations.
func (c *Creations) Refused() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ever
}

// creator identifies the client on whose behalf a context creates.
type creator struct {
	bounds *Creations
	from   netip.Prefix
}

type creatorKey struct{}

// By returns ctx for requests of the client at an address. Clients of unix sockets are not
// limited.
func (c *Creations) By(ctx context.Context, address net.Addr) context.Context {
	at, tcp := address.(*net.TCPAddr)
	if c == nil || !tcp {
		return ctx
	}
	return context.WithValue(ctx, creatorKey{}, creator{c, placeOf(at.AddrPort().Addr())})
}

// Uncounted returns ctx for actions that the client did not request itself.
func Uncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, creatorKey{}, nil)
}

// placeOf returns what counts as one address: an IPv4 address, the /64 of an IPv6 address, which
// is the least that one client has, and loopback as a whole.
func placeOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	switch {
	case a.IsLoopback():
		a, bits = netip.IPv6Loopback(), netip.IPv6Loopback().BitLen()
	case a.Is6():
		bits = 64
	}
	p, _ := a.Prefix(bits) // it has that many bits
	return p
}

// Create counts n creations at once, of a channel or of the partitions of a topic, against the limit of the client in
// ctx, or returns failure.TooManyCreated. Creations by a node itself or for another node are not limited.
// undo must be called if nothing was created.
func Create(ctx context.Context, n int) (undo func(), err error) {
	who, ok := ctx.Value(creatorKey{}).(creator)
	if !ok {
		return func() {}, nil
	}
	if !who.bounds.reserve(who.from, n, time.Now()) {
		return nil, failure.TooManyCreated
	}
	return func() { who.bounds.undo(who.from, n) }, nil
}

// MayCreate returns the error of Create if one of several calls with these numbers would be refused now. It counts
// nothing.
func MayCreate(ctx context.Context, each ...int) error {
	if who, ok := ctx.Value(creatorKey{}).(creator); ok && !who.bounds.allow(who.from, each, time.Now()) {
		return failure.TooManyCreated
	}
	return nil
}

// allow reports whether creations would be allowed now, one after the other.
func (c *Creations) allow(from netip.Prefix, each []int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, all := c.of[from], c.used
	for _, n := range each {
		var mayOne, mayAll bool
		one, mayOne = c.one.after(one, now, n)
		all, mayAll = c.all.after(all, now, n)
		if !mayOne || !mayAll {
			return false
		}
	}
	return true
}

func (c *Creations) reserve(from netip.Prefix, n int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, mayOne := c.one.after(c.of[from], now, n)
	all, mayAll := c.all.after(c.used, now, n)
	if !mayOne || !mayAll {
		c.ever++
		c.since++
		c.tellLocked(from, mayOne, now)
		return false
	}
	c.of[from], c.used = one, all
	c.forgetLocked(now)
	return true
}

// forgetLocked removes the addresses that have their full burst again.
func (c *Creations) forgetLocked(now time.Time) {
	if len(c.of) < c.sweep {
		return
	}
	for from, used := range c.of {
		if !used.After(now) {
			delete(c.of, from)
		}
	}
	c.sweep = max(fewestForSweep, 2*len(c.of))
}

// tellLocked logs refusals, with a limited rate.
func (c *Creations) tellLocked(from netip.Prefix, mayOne bool, now time.Time) {
	if !c.told.IsZero() && now.Sub(c.told) < creationsTell {
		return
	}
	c.log.Warn("creation limit reached, new topics, partitions and channels refused; existing ones are not affected; raise creation-burst and creation-rate if the load is legitimate",
		"from", from, "in_all", mayOne, "refused", c.since)
	c.told, c.since = now, 0
}

func (c *Creations) undo(from netip.Prefix, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = c.used.Add(-time.Duration(n) * c.all.each)
	if used, ok := c.of[from]; ok {
		c.of[from] = used.Add(-time.Duration(n) * c.one.each)
	}
}
