package commitlog

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Builder is a batch in progress: records are encoded directly into the bytes that will be on disk.
// The zero Builder is an empty batch. It is not safe for concurrent use.
//
// The size of a batch is known only at its end, so it is formed in memory that the next batch
// reuses, and the appended batch is a copy of exactly its size.
type Builder struct {
	raw     []byte
	scratch *[]byte // from scratches, where raw began; nil: the batch is empty
	count   uint32
	attrs   uint16
}

const (
	newScratchBytes = 4 << 10
	// maxScratchBytes is the maximum size of memory kept for forming batches. A larger batch is not
	// copied: it keeps the memory in which it was formed.
	maxScratchBytes = 2 << 20
)

// scratches hold memory in which batches are formed.
var scratches = sync.Pool{New: func() any {
	return new(make([]byte, 0, newScratchBytes))
}}

// Next adds a record and returns its n bytes, all of which the caller must fill. They are valid
// until Next is called again or the batch is appended.
func (b *Builder) Next(n int) []byte {
	if b.raw == nil {
		b.scratch = scratches.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
		b.raw = slices.Grow(*b.scratch, headerBytes)[:headerBytes]
	}
	b.raw = binary.AppendUvarint(b.raw, uint64(n)) //nolint:gosec // a length is not negative
	start := len(b.raw)
	b.raw = slices.Grow(b.raw, n)[:start+n]
	b.count++
	return b.raw[start : start+n : start+n]
}

// Reserve reserves room for records of n bytes at once: growing step by step copies large blocks,
// during which nothing else gets the processor. Existing records are copied, so at least as much
// again is reserved.
func (b *Builder) Reserve(n int) {
	start := max(len(b.raw), headerBytes)
	if n <= maxScratchBytes || cap(b.raw) >= start+n {
		return
	}
	raw := make([]byte, start, align(start+max(n, start)))
	copy(raw, b.raw)
	b.raw = raw
}

// RecordBytes returns the bytes that Next(n) adds to a batch.
func RecordBytes(n int) int { return (bits.Len(uint(n)|1)+6)/7 + n }

// Count returns the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the current encoded size of the batch, including its header.
func (b *Builder) Size() int {
	return align(max(len(b.raw), headerBytes))
}

// End returns where the next record begins, in bytes from the beginning of the batch.
func (b *Builder) End() int { return max(len(b.raw), headerBytes) }

// SetAttributes adds bits to the batch's attributes.
func (b *Builder) SetAttributes(bits uint16) { b.attrs |= bits }

func align(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// place is where a batch is appended: its epoch, its first offset, and the committed end of the log
// at that moment.
type place struct {
	epoch            seq.Epoch
	first, committed seq.Offset
}

// seal completes the batch. The bytes belong to the builder until spend.
func (b *Builder) seal(at place, timestamp int64) []byte {
	payload := len(b.raw) - headerBytes
	padded := align(len(b.raw))
	raw := slices.Grow(b.raw, padded-len(b.raw))[:padded]
	b.raw = raw[:len(b.raw)]
	clear(raw[len(b.raw):])
	raw[0], raw[1], raw[2], raw[3] = magic0, magic1, formatVersion, 0
	le := binary.LittleEndian
	le.PutUint32(raw[8:], uint32(len(raw))) //nolint:gosec // at most maxBatchBytes
	le.PutUint16(raw[12:], b.attrs)
	le.PutUint16(raw[14:], 0)
	le.PutUint64(raw[16:], uint64(at.epoch))
	le.PutUint64(raw[24:], uint64(at.first))
	le.PutUint32(raw[32:], b.count)
	le.PutUint32(raw[36:], uint32(payload))   //nolint:gosec // as above
	le.PutUint64(raw[40:], uint64(timestamp)) //nolint:gosec // the bits of a signed number
	le.PutUint64(raw[48:], uint64(at.committed))
	le.PutUint32(raw[4:], checksum(raw[8:]))
	return raw
}

// spend empties the builder and returns the sealed bytes, which then belong to the caller.
func (b *Builder) spend(sealed []byte) []byte {
	kept := sealed
	if cap(sealed) <= maxScratchBytes {
		kept = bytes.Clone(sealed)
		*b.scratch = sealed[:0]
		scratches.Put(b.scratch)
	}
	*b = Builder{}
	return kept
}
