package peer

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// counters count the traffic with one node in one class and direction. They
// outlive connections.
type counters struct {
	sent, received atomic.Uint64 // bytes
	calls, failed  atomic.Uint64
	connects       atomic.Uint64
	up             atomic.Int64 // connections
	roundTrip      atomic.Int64 // ns
}

// Stats is the traffic with one node in one class and direction since the
// Transport began.
type Stats struct {
	Node      Node
	Class     Class
	Inbound   bool // the other side dials and calls
	Connected int  // connections that are up
	Sent      uint64
	Received  uint64 // bytes, with headers
	Calls     uint64 // dialed, or accepted if Inbound
	Failed    uint64 // calls that were not sent or whose connection broke
	Connects  uint64 // sessions so far: one more than reconnects
	RoundTrip time.Duration
}

// statsKey names a set of counters.
type statsKey struct {
	node    Node
	class   Class
	inbound bool
}

// ledger holds all counters.
type ledger struct {
	mu     sync.Mutex // guards counts
	counts map[statsKey]*counters
}

// of returns the counters of a key.
func (l *ledger) of(k statsKey) *counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[k]
	if c == nil {
		c = new(counters)
		l.counts[k] = c
	}
	return c
}

// snapshot returns all counts, sorted.
func (l *ledger) snapshot() []Stats {
	l.mu.Lock()
	all := make([]Stats, 0, len(l.counts))
	for k, c := range l.counts {
		all = append(all, Stats{
			Node: k.node, Class: k.class, Inbound: k.inbound,
			Connected: int(c.up.Load()),
			Sent:      c.sent.Load(), Received: c.received.Load(),
			Calls: c.calls.Load(), Failed: c.failed.Load(),
			Connects:  c.connects.Load(),
			RoundTrip: time.Duration(c.roundTrip.Load()),
		})
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b Stats) int {
		in := func(s Stats) int {
			if s.Inbound {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Class, b.Class), cmp.Compare(in(a), in(b)))
	})
	return all
}
