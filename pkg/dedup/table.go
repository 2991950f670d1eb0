package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// DefaultMost is how many ids of one partition are known: 48 MiB of memory.
const DefaultMost = 1 << 20

// fewest is how many entries a table has room for at least, once it has any.
const fewest = 64

// Hash stands for an id. Nobody can find two ids that have the same.
type Hash [16]byte

// HashOf returns the hash of an id.
func HashOf(id []byte) Hash {
	sum := sha256.Sum256(id)
	return Hash(sum[:16])
}

// tag is the part of a hash that the index has: it says where the search for the hash begins, too.
func (h *Hash) tag() uint32 { return binary.LittleEndian.Uint32(h[:4]) }

// entry is an id that is stored.
type entry struct {
	hash   Hash
	offset seq.Offset
	at     time.Duration
}

// table holds the ids of the last while: a ring of them in the order of the log, and
// an index of it with open addressing. It holds no pointers and takes 48 bytes for an
// id, and up to twice that while it grows. The zero table is empty; it is not for concurrent use.
type table struct {
	ring        []entry // a power of two of them
	index       []cell  // twice as many
	head, count int     // of ring
}

// cell is a slot of the index: the tag of a hash, and one more than its place in the ring; 0: free. With the
// tag, the ring is looked at only where the hash is there.
type cell uint64

func cellOf(h *Hash, place int) cell { return cell(h.tag())<<32 | cell(place+1) } //nolint:gosec // at most 2^32

func (c cell) tag() uint32 { return uint32(c >> 32) }    //nolint:gosec // the bits that are meant
func (c cell) place() int  { return int(uint32(c)) - 1 } //nolint:gosec // likewise

// Len returns how many entries there are.
func (t *table) Len() int { return t.count }

// Add adds an id that is stored at an offset since a moment. Moments ascend; of an
// id that is there already the later entry counts.
func (t *table) Add(h Hash, o seq.Offset, at time.Duration) {
	if t.count == len(t.ring) {
		t.resize(max(fewest, 2*len(t.ring)))
	}
	place := (t.head + t.count) & (len(t.ring) - 1)
	t.ring[place] = entry{h, o, at}
	t.count++
	t.point(place)
}

// Find returns where an id is stored, and since when.
func (t *table) Find(h Hash) (o seq.Offset, at time.Duration, ok bool) {
	if t.count == 0 {
		return 0, 0, false
	}
	i, there := t.lookup(&h)
	if !there {
		return 0, 0, false
	}
	e := &t.ring[t.index[i].place()]
	return e.offset, e.at, true
}

// Oldest returns the moment of the oldest entry; false: there is none.
func (t *table) Oldest() (time.Duration, bool) {
	if t.count == 0 {
		return 0, false
	}
	return t.ring[t.head].at, true
}

// Drop forgets the oldest entry.
func (t *table) Drop() {
	i, there := t.lookup(&t.ring[t.head].hash)
	if there && t.index[i].place() == t.head { // else a later entry of the id counts
		t.free(i)
	}
	t.head = (t.head + 1) & (len(t.ring) - 1)
	t.count--
	switch {
	case t.count == 0:
		*t = table{}
	case len(t.ring) > fewest && t.count <= len(t.ring)/8:
		t.resize(len(t.ring) / 4)
	}
}

// Warm reads what the search for some hashes begins with, and for those of as many oldest entries. No
// cache holds a large index, so that each search waits for memory: here all wait at the same time. It returns
// what it read, which means nothing.
func (t *table) Warm(hashes []Hash) (read uint64) {
	if len(t.index) < worthWarming {
		return 0
	}
	mask := uint32(len(t.index) - 1) //nolint:gosec // at most 2^32
	for i := range hashes {
		read += uint64(t.index[hashes[i].tag()&mask])
	}
	return read
}

// WarmOldest is Warm for the oldest entries, which are about to be dropped.
func (t *table) WarmOldest(n int) (read uint64) {
	if len(t.index) < worthWarming {
		return 0
	}
	mask := uint32(len(t.index) - 1) //nolint:gosec // at most 2^32
	for k := range min(n, t.count) {
		read += uint64(t.index[t.ring[(t.head+k)&(len(t.ring)-1)].hash.tag()&mask])
	}
	return read
}

// worthWarming is how many slots an index has at least that a processor's own cache does not hold.
const worthWarming = 32 << 10

// lookup returns the slot of a hash, or the free one where it would be.
func (t *table) lookup(h *Hash) (slot uint32, there bool) {
	mask, tag := uint32(len(t.index)-1), h.tag() //nolint:gosec // at most 2^32
	for i := tag & mask; ; i = (i + 1) & mask {
		switch c := t.index[i]; {
		case c == 0:
			return i, false
		case c.tag() == tag && t.ring[c.place()].hash == *h:
			return i, true
		}
	}
}

// point has the index name a place of the ring for its hash.
func (t *table) point(place int) {
	h := &t.ring[place].hash
	i, _ := t.lookup(h)
	t.index[i] = cellOf(h, place)
}

// free empties a slot, and moves those behind it that would not be found any more.
func (t *table) free(i uint32) {
	mask := uint32(len(t.index) - 1) //nolint:gosec // as above
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := t.index[j].tag() & mask
		if (j-home)&mask >= (j-i)&mask { // it may stand at i
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
}

// resize makes room for n entries.
func (t *table) resize(n int) {
	was := *t
	*t = table{ring: make([]entry, n), index: make([]cell, 2*n), count: was.count}
	for k := range was.count {
		t.ring[k] = was.ring[(was.head+k)&(len(was.ring)-1)]
		t.point(k)
	}
}
