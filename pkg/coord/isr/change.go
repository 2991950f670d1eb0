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
	c := Change{ISR: slices.Clone(in)}
	for _, r := range replicas {
		i := slices.Index(c.ISR, r.Node)
		if i < 0 {
			continue
		}
		switch {
		case r.Gone:
			c.Why = string(r.Node) + " is down"
		case now.Sub(r.CaughtUp) > lag:
			c.Why = string(r.Node) + " lags"
		default:
			continue
		}
		c.ISR = slices.Delete(c.ISR, i, i+1)
	}
	if len(c.ISR) < len(in) {
		return c, true
	}
	for _, r := range replicas {
		if r.Ready && !r.Gone && !slices.Contains(in, r.Node) {
			c.ISR, c.Joiner = append(c.ISR, r.Node), r.Node
			c.Why = string(r.Node) + " has caught up"
			return c, true
		}
	}
	return Change{}, false
}
