package coord

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
)

// DefaultUncommittedBytes is the default bound of a node's uncommitted bytes.
const DefaultUncommittedBytes = 1 << 30

// Budget bounds the uncommitted bytes of all terms of a node together. Each partition has its
// own bound, but thousands of them with slow followers or disks would still fill the node's
// memory.
//
// A term may hold a sixteenth of the free budget. Stalled partitions therefore do not exhaust
// it, whether they stall together or one after another: each stops at less than a sixteenth of
// the remainder, and beyond twenty of them a third of the budget is still free. The total
// exceeds the budget by less than one entry. A Budget is safe for concurrent use; a nil one is
// unlimited.
type Budget struct {
	limit int64
	used  atomic.Int64
	full  atomic.Uint64
}

// termShare is the fraction of the free budget that one term may hold, as a divisor.
const termShare = 16

// NewBudget returns a budget of the given bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Usage returns the uncommitted bytes, their limit, and how many entries had to wait or were
// refused because of it.
func (b *Budget) Usage() (used, limit int64, full uint64) {
	return b.used.Load(), b.limit, b.full.Load()
}

// reserve reserves n bytes for a term that already holds some, and reports whether it may have
// them.
func (b *Budget) reserve(held, n int) bool {
	if b == nil {
		return true
	}
	for {
		used := b.used.Load()
		if used+termShare*int64(held) >= b.limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

// giveBack returns n reserved bytes.
func (b *Budget) giveBack(n int) {
	if b != nil {
		b.used.Add(-int64(n))
	}
}

// refused counts an entry that had to wait or was refused.
func (b *Budget) refused() { b.full.Add(1) }

// Credits are shared by the terms of a node: one replication.Credit for each other node, whatever
// the partition. Safe for concurrent use.
type Credits struct {
	sizes limit.Sizes

	mu sync.Mutex // guards what follows
	of map[meta.NodeID]*replication.Credit
}

// NewCredits returns credits of Sizes.Pair bytes each; zero: limit.Default.
func NewCredits(s limit.Sizes) *Credits {
	return &Credits{sizes: s.OrDefault(), of: map[meta.NodeID]*replication.Credit{}}
}

// To returns the credit for followers on a node, or nil if there are no Credits.
func (c *Credits) To(node meta.NodeID) *replication.Credit {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	credit := c.of[node]
	if credit == nil {
		credit = replication.NewCredit(c.sizes)
		c.of[node] = credit
	}
	return credit
}

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
