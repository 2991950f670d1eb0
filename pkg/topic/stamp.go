package topic

import "github.com/brokerd/brokerd/pkg/seq"

// stamp numbers what is shared: snapshots of one term grow. It stands where a
// stored snapshot has its own number.
type stamp uint64

const stampBits = 32 // of a stamp that number the snapshots of one epoch

func stampOf(e seq.Epoch, n uint32) stamp { return stamp(uint64(e)<<stampBits | uint64(n)) }

// retells reports whether s is of a snapshot that was told no later than one that
// is known, by the same leader.
func (s stamp) retells(known stamp) bool {
	return s>>stampBits == known>>stampBits && s <= known
}
