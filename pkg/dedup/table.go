package dedup

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// DefaultMost is the maximum number of ids known per partition: 48 MiB of memory.
const DefaultMost = 1 << 20

// fewest is the minimum capacity of a table that has entries.
const fewest = 64

// Hash represents an id in this process. Collisions cannot be constructed, nor ids whose hashes begin
// alike: they would make each search as long as their number.
type Hash [16]byte

// seed makes the hashes of this process differ from those of others. With 8 bytes, an id of up to 47
// takes one round of the hash function.
var seed = func() (s [8]byte) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}()

// HashOf returns the hash of an id, which may have any length.
func HashOf(id []byte) Hash {
	var buffer [128]byte
	sum := sha256.Sum256(append(append(buffer[:0], seed[:]...), id...))
	return Hash(sum[:16])
}

// tag is the part of a hash that the index stores; it also determines where a search starts.
func (h *Hash) tag() uint32 { return binary.LittleEndian.Uint32(h[:4]) }

// entry is a stored id.
type entry struct {
	hash   Hash
	offset seq.Offset
	at     time.Duration
}

// table holds the recent ids: a ring in log order, and an index of it with open addressing. It
// holds no pointers, and takes 48 bytes per id, up to twice that while it grows. The zero table is
// empty. It is not safe for concurrent use.
type table struct {
	ring        []entry // a power of two
	index       []cell  // twice as many
	head, count int     // of the ring
}

// cell is a slot of the index: the tag of a hash, and its position in the ring plus one; 0 if
// free. Because of the tag, a search reads the ring only where the hash is likely to be.
type cell uint64

func cellOf(h *Hash, place int) cell { return cell(h.tag())<<32 | cell(place+1) } //nolint:gosec // at most 2^32

func (c cell) tag() uint32 { return uint32(c >> 32) }    //nolint:gosec // the bits that are meant
func (c cell) place() int  { return int(uint32(c)) - 1 } //nolint:gosec // likewise

// Len returns the number of entries.
func (t *table) Len() int { return t.count }

// Add adds an id that is stored at an offset since a time. Times must not decrease. If the id
// exists, the later entry replaces it.
func (t *table) Add(h Hash, o seq.Offset, at time.Duration) {
	if t.count == len(t.ring) {
		t.resize(max(fewest, 2*len(t.ring)))
	}
	place := (t.head + t.count) & (len(t.ring) - 1)
	t.ring[place] = entry{h, o, at}
	t.count++
	t.point(place)
}

// Find returns the offset of an id, and since when it is stored.
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

// Oldest returns the time of the oldest entry. It returns false if there is none.
func (t *table) Oldest() (time.Duration, bool) {
	if t.count == 0 {
		return 0, false
	}
	return t.ring[t.head].at, true
}

// Drop removes the oldest entry.
func (t *table) Drop() {
	i, there := t.lookup(&t.ring[t.head].hash)
	if there && t.index[i].place() == t.head { // otherwise a later entry of the id exists
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

// Warm prefetches the index slots for some hashes, and for as many of the oldest entries. A large
// index does not fit a processor cache, so that each search waits for memory; here all of them
// wait at the same time. The returned value has no meaning.
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

// worthWarming is the size from which on an index exceeds a processor's own cache.
const worthWarming = 32 << 10

// lookup returns the slot of a hash, or the free slot where it belongs.
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

// point sets the index slot of an entry of the ring.
func (t *table) point(place int) {
	h := &t.ring[place].hash
	i, _ := t.lookup(h)
	t.index[i] = cellOf(h, place)
}

// free clears a slot, and moves the following ones that would no longer be found.
func (t *table) free(i uint32) {
	mask := uint32(len(t.index) - 1) //nolint:gosec // as above
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := t.index[j].tag() & mask
		if (j-home)&mask >= (j-i)&mask { // it may be moved to i
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
}

// resize sets the capacity to at least n entries.
func (t *table) resize(n int) {
	was := *t
	*t = table{ring: make([]entry, n), index: make([]cell, 2*n), count: was.count}
	for k := range was.count {
		t.ring[k] = was.ring[(was.head+k)&(len(was.ring)-1)]
		t.point(k)
	}
}
