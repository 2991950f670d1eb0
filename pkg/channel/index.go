package channel

import "github.com/brokerd/brokerd/pkg/seq"

// index finds the slot of a tracked offset: an open-addressed table with linear
// probing that deletes by shifting back. Unlike a map it leaves no tombstones,
// so a window that slides over the log for ever never makes it allocate.
type index struct {
	cells []cell // a power of two; slot 0 means free
	used  int
	shift uint8
}

type cell struct {
	offset seq.Offset
	slot   int32
}

const minCells = 16

// home is where an offset would like to be.
func (x *index) home(o seq.Offset) int {
	const golden = 0x9E3779B97F4A7C15 // 2^64 / phi: spreads dense numbers evenly
	return int(uint64(o) * golden >> x.shift)
}

func (x *index) get(o seq.Offset) (int32, bool) {
	if x.used == 0 {
		return 0, false
	}
	mask := len(x.cells) - 1
	for i := x.home(o); ; i = (i + 1) & mask {
		c := &x.cells[i]
		if c.slot == 0 {
			return 0, false
		}
		if c.offset == o {
			return c.slot, true
		}
	}
}

// put adds an offset that is not there.
func (x *index) put(o seq.Offset, slot int32) {
	if 4*(x.used+1) > 3*len(x.cells) {
		x.grow()
	}
	x.used++
	x.place(o, slot)
}

func (x *index) place(o seq.Offset, slot int32) {
	mask := len(x.cells) - 1
	i := x.home(o)
	for x.cells[i].slot != 0 {
		i = (i + 1) & mask
	}
	x.cells[i] = cell{o, slot}
}

func (x *index) grow() {
	old := x.cells
	n := max(minCells, 2*len(old))
	x.cells = make([]cell, n)
	x.shift = 64
	for ; n > 1; n /= 2 {
		x.shift--
	}
	for _, c := range old {
		if c.slot != 0 {
			x.place(c.offset, c.slot)
		}
	}
}

// remove drops an offset that is there.
func (x *index) remove(o seq.Offset) {
	mask := len(x.cells) - 1
	hole := x.home(o)
	for x.cells[hole].offset != o || x.cells[hole].slot == 0 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; x.cells[i].slot != 0; i = (i + 1) & mask {
		// A cell may fill the hole if its home is not between the hole and it.
		if home := x.home(x.cells[i].offset); (i-home)&mask >= (i-hole)&mask {
			x.cells[hole] = x.cells[i]
			hole = i
		}
	}
	x.cells[hole] = cell{}
	x.used--
}
