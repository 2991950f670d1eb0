// Package fields reads binary messages and files field by field. After the first field that is
// invalid a reader returns zeros, so that its caller checks for an error once, at the end.
//
// Invariants: no input makes a reader panic, and no announced length or count makes it allocate.
package fields

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var errTruncated = errors.New("truncated")

// Reader reads fields from the front of Rest. Fixed numbers are little endian. It is not for
// concurrent use.
type Reader struct {
	Rest []byte // what is not read yet
	err  error
}

// Fail makes the input invalid, for a reason. The first reason is kept.
func (r *Reader) Fail(reason error) {
	if r.err == nil {
		r.err = reason
	}
	r.Rest = nil
}

// Err returns why the input is invalid, as far as it is read; nil: it is valid.
func (r *Reader) Err() error { return r.err }

// End returns an error that wraps invalid and names what was read, unless the input was valid and
// has been read to its end.
func (r *Reader) End(invalid error, what string) error {
	if len(r.Rest) > 0 {
		r.Fail(fmt.Errorf("%d trailing bytes", len(r.Rest)))
	}
	if r.err != nil {
		return fmt.Errorf("%w: %s: %w", invalid, what, r.err)
	}
	return nil
}

// Next reads n bytes, which share Rest's array; nil: there are fewer.
func (r *Reader) Next(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.Fail(errTruncated)
		return nil
	}
	p := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return p
}

// fixed is Next with zeros in place of nil.
func (r *Reader) fixed(n int) []byte {
	if p := r.Next(n); p != nil {
		return p
	}
	return make([]byte, n)
}

// Uint8 reads a byte.
func (r *Reader) Uint8() uint8 { return r.fixed(1)[0] }

// Uint16 reads 2 bytes.
func (r *Reader) Uint16() uint16 { return binary.LittleEndian.Uint16(r.fixed(2)) }

// Uint32 reads 4 bytes.
func (r *Reader) Uint32() uint32 { return binary.LittleEndian.Uint32(r.fixed(4)) }

// Uint64 reads 8 bytes.
func (r *Reader) Uint64() uint64 { return binary.LittleEndian.Uint64(r.fixed(8)) }

// Uvarint reads an unsigned varint in its shortest form.
func (r *Reader) Uvarint() uint64 { return r.Number(math.MaxUint64) }

// Varint reads a signed varint in its shortest form.
func (r *Reader) Varint() int64 {
	v := r.Uvarint()
	return int64(v>>1) ^ -int64(v&1) //nolint:gosec // the bits that are meant
}

// Number reads an unsigned varint in its shortest form, at most most.
func (r *Reader) Number(most uint64) uint64 {
	v, n := binary.Uvarint(r.Rest)
	switch {
	case n <= 0:
		r.Fail(errors.New("truncated or oversized number"))
	case n > 1 && r.Rest[n-1] == 0:
		r.Fail(errors.New("number not in its shortest form"))
	case v > most:
		r.Fail(errors.New("number out of range"))
	default:
		r.Rest = r.Rest[n:]
		return v
	}
	return 0
}

// Count reads, as a varint, the number of entries that follow, each of at least size bytes.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)/size) { //nolint:gosec // a length
		r.Fail(errors.New("count exceeds the bytes left"))
		return 0
	}
	return int(n) //nolint:gosec // bounded above
}

// Bytes reads a length, as a varint, and as many bytes, which share Rest's array.
func (r *Reader) Bytes() []byte { return r.Next(r.Count(1)) }

// Text is Bytes as a string.
func (r *Reader) Text() string { return string(r.Bytes()) }
