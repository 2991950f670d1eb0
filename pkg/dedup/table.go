package dedup

import (
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// DefaultMost is the maximum number of ids known per partition: 48 MiB of memory, with room for the
// ids of publishes in progress.
const DefaultMost = 1<<20 - 1<<16

// fewest is the minimum capacity of a table that has entries.
const fewest = 64

// entry is a claimed or stored id.
type entry struct {
	hash   Hash
	offset seq.Offset
	at     time.Duration // when it was stored, or one of the following
}

const (
	claimed time.Duration = math.MinInt64 + iota // it is being stored
	gone                                         // it was released or has a later entry
)

// table holds the claimed and the recent ids: a ring in the order of their claims, and an index of it
// with open addressing. It holds no pointers, and takes 48 bytes per id, up to twice that while it
// grows. The zero table is empty. It is not safe for concurrent use.
type table struct {
	ring       []entry // a power of two; entry number n is at n modulo their number
	index      []cell  // twice as many
	head, tail uint32  // numbers of the oldest entry, and of the next one
	stored     int     // entries of stored ids
	gone       int     // entries that count no longer
}

// cell is a slot of the index: the tag of a hash, and the number of its entry; 0 if free. Because of
// the tag, a search reads the ring only where the hash is likely to be.
type cell uint64

func cellOf(h *Hash, number uint32) cell { return cell(h.tag())<<32 | cell(number) }

func (c cell) tag() uint32    { return uint32(c >> 32) } //nolint:gosec // the bits that are meant
func (c cell) number() uint32 { return uint32(c) }       //nolint:gosec // likewise

// entry returns the entry of a number.
func (t *table) entry(number uint32) *entry { return &t.ring[int(number)&(len(t.ring)-1)] }

// Find returns the slot of an id, and its entry. If it has none it returns nil, and the slot for Add.
func (t *table) Find(h *Hash) (slot uint32, e *entry) {
	if int(t.tail-t.head) == len(t.ring) {
		t.makeRoom()
	}
	slot, there := t.lookup(h)
	if !there {
		return slot, nil
	}
	return slot, t.entry(t.index[slot].number())
}

// Claimed returns the entry of a claimed id, or nil if the id is not claimed. hint is the number of the
// entry unless it was moved since. It saves a search, in memory that the claim has probably left in
// another processor's cache.
func (t *table) Claimed(h *Hash, hint uint32) *entry {
	if hint-t.head < t.tail-t.head {
		if e := t.entry(hint); e.at == claimed && e.hash == *h {
			return e
		}
	}
	if t.head == t.tail {
		return nil
	}
	slot, there := t.lookup(h)
	if !there {
		return nil
	}
	if e := t.entry(t.index[slot].number()); e.at == claimed {
		return e
	}
	return nil
}

// Add adds an entry of an id at the slot that Find returned.
func (t *table) Add(slot uint32, e entry) {
	t.index[slot] = cellOf(&e.hash, t.tail)
	*t.entry(t.tail) = e
	t.tail++
	if e.at > gone {
		t.stored++
	}
}

// Replace marks the entry of a stored id as gone. An Add at its slot must follow.
func (t *table) Replace(e *entry) {
	e.at = gone
	t.stored--
	t.gone++
}

// Release removes a claimed id.
func (t *table) Release(e *entry) {
	slot, _ := t.lookup(&e.hash)
	t.free(slot)
	e.at = gone
	t.gone++
	for t.tail != t.head && t.entry(t.tail-1).at == gone {
		t.tail--
		t.gone--
	}
}

// Oldest returns the oldest entry that counts, or nil.
func (t *table) Oldest() *entry {
	for t.head != t.tail {
		if e := t.entry(t.head); e.at != gone {
			return e
		}
		t.head++
		t.gone--
	}
	return nil
}

// Drop removes the oldest entry if it is stored. If it is claimed it becomes the newest.
func (t *table) Drop() (dropped bool) {
	e := *t.entry(t.head)
	slot, _ := t.lookup(&e.hash)
	t.head++
	if e.at == claimed {
		t.Add(slot, e)
		return false
	}
	t.free(slot)
	t.stored--
	return true
}

// Shrink returns memory that few entries do not need.
func (t *table) Shrink() {
	switch entries := int(t.tail - t.head); {
	case entries == 0:
		*t = table{}
	case len(t.ring) > fewest && entries <= len(t.ring)/8:
		t.rebuild(len(t.ring) / 4)
	}
}

// Warm prefetches the index slots for some hashes. A large index does not fit a processor cache, so
// that each search waits for memory; here all of them wait at the same time. The returned value has
// no meaning.
func (t *table) Warm(hashes []Hash) (read uint64) {
	if len(t.index) < worthWarming {
		return 0
	}
	for i := range hashes {
		read += uint64(t.index[t.home(hashes[i].tag())])
	}
	return read
}

// WarmOldest is Warm for the oldest entries, which are about to be dropped.
func (t *table) WarmOldest(n int) (read uint64) {
	if len(t.index) < worthWarming {
		return 0
	}
	for k := range uint32(min(n, int(t.tail-t.head))) { //nolint:gosec // at most 2^32
		read += uint64(t.index[t.home(t.entry(t.head+k).hash.tag())])
	}
	return read
}

// worthWarming is the size from which on an index exceeds a processor's own cache.
const worthWarming = 32 << 10

// home returns the slot where the search for a tag starts.
func (t *table) home(tag uint32) uint32 { return tag & uint32(len(t.index)-1) } //nolint:gosec // at most 2^32

// lookup returns the slot of a hash, or the free slot where it belongs.
func (t *table) lookup(h *Hash) (slot uint32, there bool) {
	tag := h.tag()
	for i := t.home(tag); ; i = t.home(i + 1) {
		switch c := t.index[i]; {
		case c == 0:
			return i, false
		case c.tag() == tag && t.entry(c.number()).hash == *h:
			return i, true
		}
	}
}

// free clears a slot, and moves the following ones that would no longer be found.
func (t *table) free(i uint32) {
	for j := t.home(i + 1); t.index[j] != 0; j = t.home(j + 1) {
		home := t.home(t.index[j].tag())
		if t.home(j-home) >= t.home(j-i) { // it may be moved to i
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
}

// makeRoom makes room for one entry at least.
func (t *table) makeRoom() {
	switch n := len(t.ring); {
	case n == 0:
		*t = table{ring: make([]entry, fewest), index: make([]cell, 2*fewest)}
	case t.gone > n/32:
		t.rebuild(n)
	default:
		t.double()
	}
}

// double doubles the capacity. The entries keep their numbers, and the old index is read in order and
// written nearly in order, so that few accesses wait for memory.
func (t *table) double() {
	was := *t
	t.ring, t.index = make([]entry, 2*len(was.ring)), make([]cell, 2*len(was.index))
	for k := t.head; k != t.tail; k++ {
		*t.entry(k) = *was.entry(k)
	}
	for _, c := range was.index {
		if c == 0 {
			continue
		}
		i := t.home(c.tag())
		for t.index[i] != 0 {
			i = t.home(i + 1)
		}
		t.index[i] = c
	}
}

// rebuild sets the capacity to n entries, and omits those that count no longer.
func (t *table) rebuild(n int) {
	was := *t
	*t = table{ring: make([]entry, n), index: make([]cell, 2*n)}
	for k := was.head; k != was.tail; k++ {
		if e := was.entry(k); e.at != gone {
			slot, _ := t.lookup(&e.hash)
			t.Add(slot, *e)
		}
	}
}
