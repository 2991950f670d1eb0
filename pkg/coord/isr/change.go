package isr

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Replica is a leader's knowledge of another replica.
type Replica struct {
	Node meta.NodeID
	// Gone: its node is down by the metadata, or its machine refuses connections.
	Gone bool
	// Suspect: it may have lost what it acknowledged, by the metadata.
	Suspect bool
	// Slow: it acknowledges everything in time, and holds everyone up.
	Slow bool
	// Full: its disk is full by the metadata. It may lag for a quarter of the time.
	Full bool
	// CaughtUp is when it was last known to hold all that there was.
	CaughtUp time.Time
	// Ready: it holds everything that a member must hold, in a session with the node
	// incarnation known to the metadata.
	Ready bool
}

// Change is a change of the in-sync set wanted by a leader.
type Change struct {
	ISR    []meta.NodeID
	Joiner meta.NodeID // "": no replica joins
}

// fullHurries is how many times sooner a replica leaves whose disk is known to be
// full: it will not catch up.
const fullHurries = 4

// Allowed returns for how long a replica that may lag for this long otherwise may do so if its disk
// is known to be full, or not.
func Allowed(lag time.Duration, full bool) time.Duration {
	if full {
		return lag / fullHurries
	}
	return lag
}

func (r Replica) lags(now time.Time, lag time.Duration) bool {
	return now.Sub(r.CaughtUp) > Allowed(lag, r.Full)
}

// Next returns the next due change of the in-sync set: first all members that are gone, suspect
// or lagging leave together; otherwise a slow one leaves unless fewer than least members would
// remain; otherwise one that is ready, and would not lag, joins. Non-replicas and the leader itself are not
// changed.
func Next(now time.Time, lag time.Duration, least int, in []meta.NodeID, replicas []Replica) (Change, bool) {
	var c Change
	for _, r := range replicas {
		if !r.Gone && !r.Suspect && !r.lags(now, lag) || !slices.Contains(in, r.Node) {
			continue
		}
		if c.ISR == nil {
			c.ISR = slices.Clone(in)
		}
		c.ISR = slices.DeleteFunc(c.ISR, func(n meta.NodeID) bool { return n == r.Node })
	}
	if c.ISR != nil {
		return c, true
	}
	for _, r := range replicas {
		if r.Slow && slices.Contains(in, r.Node) && len(in) > max(least, 1) {
			rest := slices.DeleteFunc(slices.Clone(in), func(n meta.NodeID) bool { return n == r.Node })
			return Change{ISR: rest}, true
		}
	}
	for _, r := range replicas {
		if r.Ready && !r.Gone && !r.lags(now, lag) && !slices.Contains(in, r.Node) {
			return Change{ISR: append(slices.Clone(in), r.Node), Joiner: r.Node}, true
		}
	}
	return Change{}, false
}
