package isr

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Replica is what a leader knows of another replica of its partition.
type Replica struct {
	Node meta.NodeID
	// Gone: its node is down by the metadata, or its machine refuses connections.
	Gone bool
	// CaughtUp is when it was last known to hold all that there was.
	CaughtUp time.Time
	// Ready: it holds all that a member must hold, in a session with the life of
	// the node that metadata knows.
	Ready bool
}

// Change is what a leader wants of the in-sync set.
type Change struct {
	ISR    []meta.NodeID
	Joiner meta.NodeID // "": nobody joins
	Why    string
}

// Next returns the next change of the in-sync set, if one is due: those who are
// gone or lag leave together; nobody leaving, one who is ready joins. Who is not
// among the replicas, the leader itself, stays.
func Next(now time.Time, lag time.Duration, in []meta.NodeID, replicas []Replica) (Change, bool) {
	var c Change
	for _, r := range replicas {
		lags := now.Sub(r.CaughtUp) > lag
		if !r.Gone && !lags || !slices.Contains(in, r.Node) {
			continue
		}
		if c.ISR == nil {
			c.ISR = slices.Clone(in)
		}
		c.ISR = slices.DeleteFunc(c.ISR, func(n meta.NodeID) bool { return n == r.Node })
		if c.Why != "" {
			c.Why += ", "
		}
		if r.Gone {
			c.Why += string(r.Node) + " is down"
		} else {
			c.Why += string(r.Node) + " lags"
		}
	}
	if c.ISR != nil {
		return c, true
	}
	for _, r := range replicas {
		if r.Ready && !r.Gone && !slices.Contains(in, r.Node) {
			return Change{
				ISR: append(slices.Clone(in), r.Node), Joiner: r.Node, Why: string(r.Node) + " has caught up",
			}, true
		}
	}
	return Change{}, false
}
