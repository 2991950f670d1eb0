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
	allCreations   = 2 // all addresses together may create so many times what one may
	creationsTell  = 10 * time.Second
	fewestForSweep = 64 // addresses, before those are looked for that need not be known any more
)

// Creations bounds how fast clients create topics and channels: each address, and all
// together. Who may create a burst at once may create as many again when the time of
// the rate has gone by. Its methods are safe for concurrent use; a nil one has no
// limit.
type Creations struct {
	one, all pace
	log      *slog.Logger

	mu    sync.Mutex // guards what follows
	used  time.Time  // until when the rate of all is used up
	of    map[netip.Prefix]time.Time
	sweep int       // so many addresses: forget those that have their whole burst again
	told  time.Time // when a refusal was told of last
	since uint64    // refusals since then
	ever  uint64    // refusals
}

// pace is a rate, as the time of one, and a burst, as the time of all in it.
type pace struct{ each, burst time.Duration }

// after returns until when the rate is used up by one more, if it may be.
func (p pace) after(used, now time.Time) (time.Time, bool) {
	if used.Before(now) {
		used = now
	}
	used = used.Add(p.each)
	return used, used.Sub(now) <= p.burst
}

// NewCreations returns bounds of so many at once for each address, of which one comes
// back after each such time; nil if burst is 0.
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

// Refused returns how often it was refused to create something.
func (c *Creations) Refused() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ever
}

// creator is who creates for the sake of a context.
type creator struct {
	bounds *Creations
	from   netip.Prefix
}

type creatorKey struct{}

// By returns ctx for what the client at an address asks for. What comes over a unix
// socket is not bounded: whoever may open it has other means.
func (c *Creations) By(ctx context.Context, address net.Addr) context.Context {
	at, tcp := address.(*net.TCPAddr)
	if c == nil || !tcp {
		return ctx
	}
	return context.WithValue(ctx, creatorKey{}, creator{c, placeOf(at.AddrPort().Addr())})
}

// Uncounted returns ctx for what a client did not ask for itself.
func Uncounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, creatorKey{}, nil)
}

// placeOf returns what counts as one address: an IPv4 address, the /64 of an IPv6
// address, which is what one client has at least, and loopback as a whole.
func placeOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	switch {
	case a.IsLoopback():
		a, bits = netip.IPv6Loopback(), netip.IPv6Loopback().BitLen()
	case a.Is6():
		bits = 64
	}
	p, _ := a.Prefix(bits) // it has so many
	return p
}

// Create takes the right to create a topic or a channel for whoever ctx says asks for it,
// or returns failure.TooManyCreated. What a node does for itself or for another node is not
// bounded. undo is to be called if nothing was created.
func Create(ctx context.Context) (undo func(), err error) {
	who, ok := ctx.Value(creatorKey{}).(creator)
	if !ok {
		return func() {}, nil
	}
	if !who.bounds.reserve(who.from, time.Now()) {
		return nil, failure.TooManyCreated
	}
	return func() { who.bounds.undo(who.from) }, nil
}

func (c *Creations) reserve(from netip.Prefix, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, mayOne := c.one.after(c.of[from], now)
	all, mayAll := c.all.after(c.used, now)
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

// forgetLocked forgets the addresses that have their whole burst again.
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

// tellLocked tells of a refusal, but not of each.
func (c *Creations) tellLocked(from netip.Prefix, mayOne bool, now time.Time) {
	if !c.told.IsZero() && now.Sub(c.told) < creationsTell {
		return
	}
	c.log.Warn("creation limit reached, new topics and channels refused; existing ones are not affected; raise creation-burst and creation-rate if the load is legitimate",
		"from", from, "in_all", mayOne, "refused", c.since)
	c.told, c.since = now, 0
}

func (c *Creations) undo(from netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = c.used.Add(-c.all.each)
	if used, ok := c.of[from]; ok {
		c.of[from] = used.Add(-c.one.each)
	}
}
