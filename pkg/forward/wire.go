package forward

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/fate"
)

// errMalformed is returned for bytes that cannot be decoded. The call had no effect.
var errMalformed = fate.Mark(errors.New("malformed cluster call"), fate.Refused)

func appendString(p []byte, s string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(s))), s...)
}

func appendBytes(p, b []byte) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}

// reader decodes a payload. After the first missing value, all values are zero and bad is set.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.bad, r.rest = true, nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// number reads a uvarint of at most max.
func (r *reader) number(max uint64) uint64 {
	v := r.uvarint()
	if v > max {
		r.fail()
		return 0
	}
	return v
}

// fixed reads n bytes, or makes as many zeros where there are fewer.
func (r *reader) fixed(n int) []byte {
	if len(r.rest) < n {
		r.fail()
		return make([]byte, n)
	}
	p := r.rest[:n]
	r.rest = r.rest[n:]
	return p
}

func (r *reader) uint8() uint8   { return r.fixed(1)[0] }
func (r *reader) uint16() uint16 { return binary.LittleEndian.Uint16(r.fixed(2)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.fixed(8)) }

// bytes reads a length and as many bytes, without copying them.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

// end reports whether all values were there and no bytes are left.
func (r *reader) end(what string) error {
	switch {
	case r.bad:
		return fmt.Errorf("%w: %s", errMalformed, what)
	case len(r.rest) > 0:
		return fmt.Errorf("%w: %d trailing bytes after %s", errMalformed, len(r.rest), what)
	}
	return nil
}
