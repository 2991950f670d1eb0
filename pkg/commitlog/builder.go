package commitlog

import (
	"encoding/binary"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Builder is a batch being formed: records are encoded straight into the bytes
// that will be on disk. The zero Builder is an empty batch. It is not for
// concurrent use.
type Builder struct {
	raw   []byte
	count uint32
	attrs uint16
}

// NewBuilder returns an empty batch with room for sizeHint bytes of records.
func NewBuilder(sizeHint int) *Builder {
	return &Builder{raw: make([]byte, headerBytes, headerBytes+max(sizeHint, 0)+alignment)}
}

// Next adds a record and returns its n bytes to be filled in, all of them. They
// are valid until Next is called again or the batch is appended.
func (b *Builder) Next(n int) []byte {
	if b.raw == nil {
		b.raw = make([]byte, headerBytes, headerBytes+n+2*alignment)
	}
	b.raw = binary.AppendUvarint(b.raw, uint64(n)) //nolint:gosec // a length is not negative
	start := len(b.raw)
	b.raw = slices.Grow(b.raw, n)[:start+n]
	b.count++
	return b.raw[start : start+n : start+n]
}

// Count returns the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the number of bytes that the batch takes on disk as it is now.
func (b *Builder) Size() int {
	if b.raw == nil {
		return 0
	}
	return align(len(b.raw))
}

// SetAttributes adds bits to the batch's attributes.
func (b *Builder) SetAttributes(bits uint16) { b.attrs |= bits }

func align(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// seal completes the batch. The bytes stay the builder's until spend.
func (b *Builder) seal(epoch seq.Epoch, first seq.Offset, timestamp int64) []byte {
	payload := len(b.raw) - headerBytes
	raw := append(b.raw, make([]byte, align(len(b.raw))-len(b.raw))...)
	raw[0], raw[1], raw[2], raw[3] = magic0, magic1, formatVersion, 0
	le := binary.LittleEndian
	le.PutUint32(raw[8:], uint32(len(raw))) //nolint:gosec // at most MaxBatchBytes
	le.PutUint16(raw[12:], b.attrs)
	le.PutUint16(raw[14:], 0)
	le.PutUint64(raw[16:], uint64(epoch))
	le.PutUint64(raw[24:], uint64(first))
	le.PutUint32(raw[32:], b.count)
	le.PutUint32(raw[36:], uint32(payload))   //nolint:gosec // as above
	le.PutUint64(raw[40:], uint64(timestamp)) //nolint:gosec // the bits of a signed number
	le.PutUint32(raw[4:], checksum(raw[8:]))
	return raw
}

func (b *Builder) spend() { *b = Builder{} }
