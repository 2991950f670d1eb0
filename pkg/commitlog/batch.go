package commitlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A batch on disk, in little-endian order:
//
//	 0       2   3   4           8          12      14      16
//	+-------+---+---+-----------+-----------+-------+-------+
//	| magic | v | 0 | CRC-32C   | length    | attrs | 0     |
//	+-------+---+---+-----------+-----------+-------+-------+
//	16                          24                          32
//	+---------------------------+---------------------------+
//	| epoch                     | first offset              |
//	+---------------------------+---------------------------+
//	32          36              40                          48
//	+-----------+---------------+---------------------------+
//	| count     | payload bytes | append timestamp, ns      |
//	+-----------+---------------+---------------------------+
//	48                          56
//	+---------------------------+
//	| committed end             |
//	+---------------------------+
//	56                                 56+payload   length
//	+----------------------------------+------------+
//	| records: uvarint length, bytes … | zeros to 8 |
//	+----------------------------------+------------+
//
// The CRC covers everything behind it, from byte 8 to length.
const (
	headerBytes = 56
	alignment   = 8

	magic0, magic1 = 0xB6, 0x4C
	formatVersion  = 2

	// maxBatchBytes is the maximum size of a batch, including its header.
	maxBatchBytes = limit.Group
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli()) }

// Batch is an immutable, verified batch: a view of bytes, cheap to copy. The zero Batch is empty.
type Batch struct {
	raw      []byte
	position int64
	marks    *[]uint32 // where each record begins in the payload; nil: unknown
}

// mark records where the records are, for callers of Record that read many of them.
func (b *Batch) mark() {
	marks := make([]uint32, 0, b.Count())
	payload := b.payload()
	for it := b.Records(b.First()); it.next < it.end; it.Next() {
		marks = append(marks, uint32(len(payload)-len(it.rest))) //nolint:gosec // at most a batch's size
	}
	b.marks = &marks
}

// Epoch returns the epoch of the leadership that appended the batch.
func (b Batch) Epoch() seq.Epoch { return seq.Epoch(binary.LittleEndian.Uint64(b.raw[16:])) }

// First returns the offset of the first record.
func (b Batch) First() seq.Offset { return seq.Offset(binary.LittleEndian.Uint64(b.raw[24:])) }

// End returns one past the offset of the last record.
func (b Batch) End() seq.Offset { return b.First() + seq.Offset(b.Count()) } //nolint:gosec // a count is not negative

// Count returns the number of records, at least 1.
func (b Batch) Count() int { return int(binary.LittleEndian.Uint32(b.raw[32:])) }

// Timestamp returns when the batch was appended, in ns since 1970, by its leader's clock.
func (b Batch) Timestamp() int64 { return int64(binary.LittleEndian.Uint64(b.raw[40:])) } //nolint:gosec // the bits of a signed number

// Committed returns the leader's committed end when it appended the batch: a replica whose log ends
// below it has lost committed records. It is at most First.
func (b Batch) Committed() seq.Offset { return seq.Offset(binary.LittleEndian.Uint64(b.raw[48:])) }

// Attributes returns the bits set by the appender. The log does not interpret them.
func (b Batch) Attributes() uint16 { return binary.LittleEndian.Uint16(b.raw[12:]) }

// Checksum returns the batch's CRC-32C. Two batches of the same epoch, first
// offset and checksum are the same batch.
func (b Batch) Checksum() uint32 { return binary.LittleEndian.Uint32(b.raw[4:]) }

// Position returns the batch's byte position in the virtual log, which grows over all segments and
// never starts again. It is 0 for a batch from Decode.
func (b Batch) Position() int64 { return b.position }

// EndPosition returns the byte position in the virtual log behind the last record of the batch.
func (b Batch) EndPosition() int64 { return b.position + int64(headerBytes+len(b.payload())) }

// PositionBefore returns the byte position of the record of n bytes that an iterator has returned
// last. end is the batch's EndPosition.
func (r *Records) PositionBefore(end int64, n int) int64 {
	return end - int64(r.Left()+RecordBytes(n))
}

// offsetAt returns the offset of the record at a byte position of the virtual log, which is in the
// batch, or of the nearest record if there is none.
func (b Batch) offsetAt(position int64) seq.Offset {
	it := b.Records(b.First())
	for it.next < it.end {
		o, _, _ := it.Next()
		if end := b.EndPosition() - int64(it.Left()); position < end {
			return o
		}
	}
	return b.End() - 1
}

// Size returns the size of the batch on disk, in bytes.
func (b Batch) Size() int { return len(b.raw) }

// Raw returns the batch as stored on disk. It must not be modified.
func (b Batch) Raw() []byte { return b.raw }

func (b Batch) payload() []byte {
	return b.raw[headerBytes : headerBytes+binary.LittleEndian.Uint32(b.raw[36:])]
}

// Records returns an iterator over the records at from and after.
func (b Batch) Records(from seq.Offset) Records {
	it := Records{rest: b.payload(), next: b.First(), end: b.End()}
	if b.marks != nil && from > it.next && from < it.end {
		it.rest, it.next = it.rest[(*b.marks)[from-it.next]:], from
	}
	for it.next < from {
		if _, _, ok := it.Next(); !ok {
			break
		}
	}
	return it
}

// Resume returns an iterator at the position of an earlier one of the same batch, given its
// remaining bytes and the next record.
func (b Batch) Resume(next seq.Offset, left int) Records {
	p := b.payload()
	return Records{rest: p[len(p)-left:], next: next, end: b.End()}
}

// Records visits the records of a batch in order. It allocates nothing.
type Records struct {
	rest      []byte
	next, end seq.Offset
}

// Next returns the next record's offset and payload, or false at the end. The payload is part of
// the batch and must not be changed.
func (r *Records) Next() (seq.Offset, []byte, bool) {
	if r.next >= r.end {
		return 0, nil, false
	}
	n, w := binary.Uvarint(r.rest)
	body := r.rest[w : w+int(n)] //nolint:gosec // checked when the batch was decoded
	r.rest = r.rest[w+int(n):]   //nolint:gosec // as above
	r.next++
	return r.next - 1, body, true
}

// Left returns how many bytes of the batch the iterator has not visited.
func (r *Records) Left() int { return len(r.rest) }

// Decode decodes and verifies the batch at the beginning of raw. The batch aliases raw, which
// must not be modified while it is used. Bytes after the batch are ignored; Size returns its
// length.
func Decode(raw []byte) (Batch, error) {
	size, err := BatchSize(raw)
	if err != nil {
		return Batch{}, err
	}
	if size > len(raw) {
		return Batch{}, fmt.Errorf("%w: %d of %d bytes", ErrInvalidBatch, len(raw), size)
	}
	return decode(raw[:size:size])
}

// BatchSize reads the size of a batch from its header, and checks what can be checked without the
// rest. It also refuses an all-zero header.
func BatchSize(raw []byte) (int, error) {
	if len(raw) < headerBytes {
		return 0, fmt.Errorf("%w: truncated header", ErrInvalidBatch)
	}
	if raw[0] != magic0 || raw[1] != magic1 {
		return 0, errNoHeader
	}
	if raw[2] != formatVersion {
		return 0, fmt.Errorf("%w: unknown format version %d", ErrInvalidBatch, raw[2])
	}
	size := binary.LittleEndian.Uint32(raw[8:])
	if size < headerBytes || size > maxBatchBytes || size%alignment != 0 {
		return 0, fmt.Errorf("%w: invalid length %d", ErrInvalidBatch, size)
	}
	return int(size), nil
}

// decode verifies exactly one batch, whose size BatchSize has returned.
func decode(raw []byte) (Batch, error) {
	b := Batch{raw: raw}
	if got := checksum(raw[8:]); got != b.Checksum() {
		return Batch{}, fmt.Errorf("%w: checksum mismatch: got %08x, want %08x", ErrInvalidBatch, got, b.Checksum())
	}
	payload := int64(binary.LittleEndian.Uint32(raw[36:]))
	padding := int64(len(raw)) - headerBytes - payload
	if raw[3] != 0 || raw[14] != 0 || raw[15] != 0 || padding < 0 || padding >= alignment {
		return Batch{}, fmt.Errorf("%w: invalid reserved bytes or payload length", ErrInvalidBatch)
	}
	for _, z := range raw[headerBytes+payload:] {
		if z != 0 {
			return Batch{}, fmt.Errorf("%w: non-zero padding", ErrInvalidBatch)
		}
	}
	if b.Count() == 0 || b.First() > seq.MaxOffset || b.End() > seq.MaxOffset+1 || b.Committed() > b.First() {
		return Batch{}, fmt.Errorf("%w: invalid offsets", ErrInvalidBatch)
	}
	rest := b.payload()
	for range b.Count() {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return Batch{}, fmt.Errorf("%w: invalid record lengths", ErrInvalidBatch)
		}
		rest = rest[w+int(n):] //nolint:gosec // n is at most a slice's length
	}
	if len(rest) != 0 {
		return Batch{}, fmt.Errorf("%w: invalid record lengths", ErrInvalidBatch)
	}
	return b, nil
}

func isZero(p []byte) bool {
	le := binary.LittleEndian
	for ; len(p) >= 32; p = p[32:] {
		if le.Uint64(p)|le.Uint64(p[8:])|le.Uint64(p[16:])|le.Uint64(p[24:]) != 0 {
			return false
		}
	}
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}
