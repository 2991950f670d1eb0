package fields

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

var errInvalid = errors.New("invalid")

func TestFieldsAreReadInOrder(t *testing.T) {
	le := binary.LittleEndian
	p := le.AppendUint64(le.AppendUint32(le.AppendUint16([]byte{1}, 2), 3), 4)
	p = binary.AppendVarint(binary.AppendUvarint(p, math.MaxUint64), math.MinInt64)
	p = append(append(p, 3, 'a', 'b', 'c'), 2, 'd', 'e')
	r := Reader{Rest: p}
	if r.Uint8() != 1 || r.Uint16() != 2 || r.Uint32() != 3 || r.Uint64() != 4 || r.Uvarint() != math.MaxUint64 || r.Varint() != math.MinInt64 {
		t.Error("a number is not as written")
	}
	if got := r.Bytes(); string(got) != "abc" || cap(got) != 3 {
		t.Errorf("got %q of capacity %d", got, cap(got))
	}
	early := r
	if err := early.End(errInvalid, "all"); !errors.Is(err, errInvalid) || err.Error() != "invalid: all: 3 trailing bytes" {
		t.Errorf("before the end: %v", err)
	}
	if got := r.Text(); got != "de" || r.End(errInvalid, "all") != nil {
		t.Errorf("got %q, %v", got, r.End(errInvalid, "all"))
	}
}

func TestFirstInvalidFieldIsReported(t *testing.T) {
	for want, read := range map[string]func(*Reader){
		"truncated":                       func(r *Reader) { r.Next(-1) },
		"truncated or oversized number":   func(r *Reader) { r.Next(5); r.Uvarint() },
		"number out of range":             func(r *Reader) { r.Number(1) },
		"number not in its shortest form": func(r *Reader) { r.Next(3); r.Uvarint() },
		"count exceeds the bytes left":    func(r *Reader) { r.Count(3) },
		"why":                             func(r *Reader) { r.Fail(errors.New("why")) },
	} {
		r := Reader{Rest: []byte{2, 0, 7, 0x80, 0x00, 0x80}}
		read(&r)
		if r.Uint8() != 0 || r.Uint64() != 0 || r.Number(9) != 0 || r.Bytes() != nil || len(r.Rest) != 0 {
			t.Errorf("%s: the fields behind it are read", want)
		}
		if err := r.End(errInvalid, "all"); !errors.Is(err, errInvalid) || !errors.Is(err, r.Err()) || r.Err().Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
