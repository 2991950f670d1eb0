package coord

import (
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
)

// ReplicationStats are a node's statistics of what it sends to replicas.
type ReplicationStats struct {
	Uncommitted      int64  // bytes that its terms have accepted and not committed
	UncommittedLimit int64  // maximum of these
	UncommittedFull  uint64 // entries that waited, or were refused, because of the limit
	CatchUpRate      int64  // bytes per second that may be sent to replicas that are not in sync; 0: there are none
}

// StatsOf returns the statistics of a node whose terms share a budget and a catch-up.
func StatsOf(b *Budget, c *replication.CatchUp, now time.Time) ReplicationStats {
	var s ReplicationStats
	s.Uncommitted, s.UncommittedLimit, s.UncommittedFull = b.Usage()
	if rate, copying := c.Rate(now); copying {
		s.CatchUpRate = rate
	}
	return s
}
