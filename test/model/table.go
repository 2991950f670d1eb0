package model

// table is a set of fingerprints: open addressing, never more than half full.
// Fingerprints are good hashes already.
type table struct {
	slots []uint64 // 0: empty
	used  int
}

const smallestTable = 1 << 16

// add adds a fingerprint and reports whether it is new.
func (t *table) add(print uint64) bool {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	if !t.place(print) {
		return false
	}
	t.used++
	return true
}

func (t *table) place(print uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		switch t.slots[i] {
		case print:
			return false
		case 0:
			t.slots[i] = print
			return true
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, max(smallestTable, 2*len(old)))
	for _, print := range old {
		if print != 0 {
			t.place(print)
		}
	}
}
