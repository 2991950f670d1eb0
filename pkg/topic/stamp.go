package topic

import "github.com/brokerd/brokerd/pkg/seq"

// stamp numbers shares: stamps of one term grow. A shared snapshot has it where a stored one has
// its own number.
type stamp uint64

const stampBits = 32 // of a stamp that number the snapshots of one epoch

func stampOf(e seq.Epoch, n uint32) stamp { return stamp(uint64(e)<<stampBits | uint64(n)) }

// retells reports whether s is from the same leader as known and not newer.
func (s stamp) retells(known stamp) bool {
	return s>>stampBits == known>>stampBits && s <= known
}
