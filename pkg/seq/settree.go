package seq

import "math/bits"

const (
	leafBits   = 9 // a leaf holds 512 offsets
	fanoutBits = 6
	leafWords  = 1 << (leafBits - 6)
	fanout     = 1 << fanoutBits
)

// node is a leaf (height 0) with a bitmap, or an inner node with children. All
// its numbers count from its own first offset. A child is full (its bit is in
// full, its pointer nil), or has a node (its bit is in part), or is empty. A
// node that became empty may stay: the window of what is unfinished comes back
// to it at once.
type node struct {
	words  [leafWords]uint64
	full   uint64
	part   uint64
	kids   *[fanout]*node
	height uint8
}

func newNode(height uint8) *node {
	n := &node{height: height}
	if height > 0 {
		n.kids = new([fanout]*node)
	}
	return n
}

// bits is the number of bits of the offsets in a node; kidBits in a child.
func (n *node) bits() uint    { return leafBits + fanoutBits*uint(n.height) }
func (n *node) kidBits() uint { return n.bits() - fanoutBits }

// add puts [lo, hi) into the node and returns how many of them are new.
func (n *node) add(lo, hi uint64) (added uint64) {
	if n.height == 0 {
		return n.addLeaf(lo, hi)
	}
	size := uint64(1) << n.kidBits()
	for i := lo >> n.kidBits(); i<<n.kidBits() < hi; i++ {
		if n.full>>i&1 != 0 {
			continue
		}
		start := i << n.kidBits()
		from, to := max(lo, start)-start, min(hi, start+size)-start
		if to-from == size {
			added += size - n.clear(i)
			n.full |= 1 << i
			continue
		}
		if n.part>>i&1 == 0 {
			n.kids[i] = newNode(n.height - 1)
			n.part |= 1 << i
		}
		added += n.kids[i].add(from, to)
		n.collapse(i)
	}
	return added
}

func (n *node) addLeaf(lo, hi uint64) (added uint64) {
	for w := lo / 64; w*64 < hi; w++ {
		mask := ^uint64(0)
		if lo > w*64 {
			mask <<= lo - w*64
		}
		if hi < w*64+64 {
			mask &= 1<<(hi-w*64) - 1
		}
		added += uint64(bits.OnesCount64(mask &^ n.words[w]))
		n.words[w] |= mask
	}
	return added
}

// collapse turns child i into a bit if it is full.
func (n *node) collapse(i uint64) {
	kid := n.kids[i]
	if kid.height > 0 {
		if kid.full != ^uint64(0) {
			return
		}
	} else {
		for _, w := range kid.words {
			if w != ^uint64(0) {
				return
			}
		}
	}
	n.kids[i] = nil
	n.part &^= 1 << i
	n.full |= 1 << i
}

// clear empties child i and returns how many offsets it held.
func (n *node) clear(i uint64) (held uint64) {
	switch {
	case n.full>>i&1 != 0:
		held = 1 << n.kidBits()
	case n.part>>i&1 != 0:
		held = n.kids[i].count()
		n.kids[i] = nil
	}
	n.full &^= 1 << i
	n.part &^= 1 << i
	return held
}

func (n *node) count() (held uint64) {
	if n.height == 0 {
		for _, w := range n.words {
			held += uint64(bits.OnesCount64(w))
		}
		return held
	}
	held = uint64(bits.OnesCount64(n.full)) << n.kidBits()
	for part := n.part; part != 0; part &= part - 1 {
		held += n.kids[bits.TrailingZeros64(part)].count()
	}
	return held
}

// drop removes everything below lo from the node and returns how many offsets that were.
func (n *node) drop(lo uint64) (removed uint64) {
	if n.height == 0 {
		for w := uint64(0); w*64 < lo; w++ {
			mask := ^uint64(0)
			if lo < w*64+64 {
				mask = 1<<(lo-w*64) - 1
			}
			removed += uint64(bits.OnesCount64(mask & n.words[w]))
			n.words[w] &^= mask
		}
		return removed
	}
	at := lo >> n.kidBits()
	for below := (n.full | n.part) & (1<<at - 1); below != 0; below &= below - 1 {
		removed += n.clear(uint64(bits.TrailingZeros64(below)))
	}
	lo -= at << n.kidBits()
	switch {
	case lo == 0:
	case n.full>>at&1 != 0:
		n.clear(at)
		n.kids[at] = newNode(n.height - 1)
		n.part |= 1 << at
		n.kids[at].add(lo, 1<<n.kidBits())
		removed += lo
	case n.part>>at&1 != 0:
		removed += n.kids[at].drop(lo)
	}
	return removed
}

// nextAbsent returns the first offset from lo on that the node does not hold,
// or its size.
func (n *node) nextAbsent(lo uint64) uint64 {
	if n.height == 0 {
		for w := lo / 64; w < leafWords; w++ {
			if rest := ^n.words[w] >> (lo - w*64); rest != 0 {
				return lo + uint64(bits.TrailingZeros64(rest))
			}
			lo = w*64 + 64
		}
		return lo
	}
	for i := lo >> n.kidBits(); i < fanout; i++ {
		start := i << n.kidBits()
		switch {
		case n.part>>i&1 != 0:
			if o := n.kids[i].nextAbsent(lo - start); o>>n.kidBits() == 0 {
				return start + o
			}
		case n.full>>i&1 == 0:
			return lo
		}
		lo = start + 1<<n.kidBits()
	}
	return lo
}

// nextPresent returns the first offset from lo on that the node holds, or its
// size.
func (n *node) nextPresent(lo uint64) uint64 {
	if n.height == 0 {
		for w := lo / 64; w < leafWords; w++ {
			if rest := n.words[w] >> (lo - w*64); rest != 0 {
				return lo + uint64(bits.TrailingZeros64(rest))
			}
			lo = w*64 + 64
		}
		return lo
	}
	for i := lo >> n.kidBits(); i < fanout; i++ {
		start := i << n.kidBits()
		switch {
		case n.full>>i&1 != 0:
			return lo
		case n.part>>i&1 != 0:
			if o := n.kids[i].nextPresent(lo - start); o>>n.kidBits() == 0 {
				return start + o
			}
		}
		lo = start + 1<<n.kidBits()
	}
	return lo
}
