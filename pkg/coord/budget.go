package coord

import "sync/atomic"

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
