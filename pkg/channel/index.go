package channel

import "github.com/brokerd/brokerd/pkg/seq"

// index finds the slot of a tracked offset. It is an open-addressed table with linear probing that
// deletes by shifting back. Unlike a map it leaves no tombstones, so a window that slides over the
// log never makes it allocate. A cell has only the low half of the offset, and the slot all of it,
// which saves 16 MB for a million messages.
type index struct {
	slots *[]message  // of all indexed messages
	cells []indexCell // a power of two; slot 0 means free
	used  int
	shift uint8
}

type indexCell struct {
	low  uint32 // half of the offset
	slot int32
}

// cell is a tracked message by its offset.
type cell struct {
	offset seq.Offset
	slot   int32
}

const minCells = 16

// lowOf returns the half of an offset that a cell stores.
func lowOf(o seq.Offset) uint32 { return uint32(o) } //nolint:gosec // the half that is meant

// home is the preferred cell of an offset with that low half.
func (x *index) home(low uint32) int {
	const golden = 0x9E3779B97F4A7C15 // 2^64 / phi: spreads dense numbers evenly
	return int(uint64(low) * golden >> x.shift)
}

// is reports whether an occupied cell belongs to an offset.
func (x *index) is(c *indexCell, o seq.Offset) bool {
	return c.low == lowOf(o) && (*x.slots)[c.slot].offset == o
}

func (x *index) get(o seq.Offset) (int32, bool) {
	if x.used == 0 {
		return 0, false
	}
	mask := len(x.cells) - 1
	for i := x.home(lowOf(o)); ; i = (i + 1) & mask {
		c := &x.cells[i]
		if c.slot == 0 {
			return 0, false
		}
		if x.is(c, o) {
			return c.slot, true
		}
	}
}

// put adds a missing offset that is already in its slot.
func (x *index) put(o seq.Offset, slot int32) {
	if 4*(x.used+1) > 3*len(x.cells) {
		x.grow(2 * len(x.cells))
	}
	x.used++
	x.place(indexCell{lowOf(o), slot})
}

func (x *index) place(c indexCell) {
	mask := len(x.cells) - 1
	i := x.home(c.low)
	for x.cells[i].slot != 0 {
		i = (i + 1) & mask
	}
	x.cells[i] = c
}

// reserve makes room for a number of offsets.
func (x *index) reserve(offsets int) {
	n := minCells
	for 3*n < 4*offsets {
		n *= 2
	}
	if n > len(x.cells) {
		x.grow(n)
	}
}

// grow resizes the table to n cells, a power of two, at least minCells.
func (x *index) grow(n int) {
	old := x.cells
	n = max(minCells, n)
	x.cells = make([]indexCell, n)
	x.shift = 64
	for ; n > 1; n /= 2 {
		x.shift--
	}
	for _, c := range old {
		if c.slot != 0 {
			x.place(c)
		}
	}
}

// remove removes an existing offset that is still in its slot.
func (x *index) remove(o seq.Offset) {
	mask := len(x.cells) - 1
	hole := x.home(lowOf(o))
	for x.cells[hole].slot == 0 || !x.is(&x.cells[hole], o) {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; x.cells[i].slot != 0; i = (i + 1) & mask {
		// A cell may fill the hole if its home is not between the hole and it.
		if home := x.home(x.cells[i].low); (i-home)&mask >= (i-hole)&mask {
			x.cells[hole] = x.cells[i]
			hole = i
		}
	}
	x.cells[hole] = indexCell{}
	x.used--
}
