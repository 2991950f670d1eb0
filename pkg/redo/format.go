package redo

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

const (
	headMagic    = "BRKREDO\x01"
	recordMagic  = "BRKD"
	headBytes    = 512
	alignment    = 512 // of records: a sector, which a disk writes as a whole
	recordHeader = 32
	maxWriteHead = 1 + 3*binary.MaxVarintLen64

	kindName  = 1
	kindWrite = 2
	kindVoid  = 3
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

var errFormat = errors.New("corrupt journal record")

// head is the beginning of a journal file. Generation 0: the file was never used.
type head struct {
	generation uint64
	before     uint64 // the number of the last record of the generation before; 0: it is not known
	settled    bool   // its records no longer count
}

// counts reports whether the records after the head count.
func (h head) counts() bool { return h.generation > 0 && !h.settled }

func (h head) encode() []byte {
	p := make([]byte, headBytes)
	copy(p, headMagic)
	if h.settled {
		binary.LittleEndian.PutUint32(p[12:], 1)
	}
	binary.LittleEndian.PutUint64(p[16:], h.generation)
	binary.LittleEndian.PutUint64(p[24:], h.before)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p[12:], castagnoli()))
	return p
}

func decodeHead(p []byte) (head, error) {
	if len(p) < headBytes {
		return head{}, nil // the file was still being created
	}
	p = p[:headBytes]
	if !slices.ContainsFunc(p, func(b byte) bool { return b != 0 }) {
		return head{}, nil
	}
	le := binary.LittleEndian
	if string(p[:8]) != headMagic || le.Uint32(p[8:]) != crc32.Checksum(p[12:], castagnoli()) || le.Uint64(p[16:]) == 0 {
		return head{}, errFormat
	}
	return head{le.Uint64(p[16:]), le.Uint64(p[24:]), le.Uint32(p[12:]) == 1}, nil
}

// sealRecord fills in the header of a record and pads the record. p has room for the header at its
// front.
func sealRecord(p []byte, generation, number uint64) []byte {
	length := len(p) - recordHeader
	for len(p)%alignment != 0 {
		p = append(p, 0)
	}
	le := binary.LittleEndian
	copy(p, recordMagic)
	le.PutUint32(p[8:], uint32(length)) //nolint:gosec // bounded by maxRecord
	le.PutUint32(p[12:], 0)
	le.PutUint64(p[16:], generation)
	le.PutUint64(p[24:], number)
	le.PutUint32(p[4:], crc32.Checksum(p[8:recordHeader+length], castagnoli()))
	return p
}

// record is a decoded record.
type record struct {
	number  uint64
	entries []byte
	size    int64 // with padding
}

// decodeRecord reads the record at the front of p. It allocates nothing.
func decodeRecord(p []byte, generation uint64) (record, error) {
	le := binary.LittleEndian
	if len(p) < recordHeader || string(p[:4]) != recordMagic || le.Uint64(p[16:]) != generation {
		return record{}, errFormat
	}
	length := int(le.Uint32(p[8:]))
	if length > len(p)-recordHeader || le.Uint32(p[4:]) != crc32.Checksum(p[8:recordHeader+length], castagnoli()) {
		return record{}, errFormat
	}
	size := int64(recordHeader+length+alignment-1) / alignment * alignment
	return record{le.Uint64(p[24:]), p[recordHeader : recordHeader+length], size}, nil
}

func appendName(p []byte, file uint64, path string) []byte {
	p = binary.AppendUvarint(append(p, kindName), file)
	p = binary.AppendUvarint(p, uint64(len(path)))
	return append(p, path...)
}

// appendWriteHead appends a write entry without its bytes.
func appendWriteHead(p []byte, file uint64, off int64, n int) []byte {
	p = binary.AppendUvarint(append(p, kindWrite), file)
	p = binary.AppendUvarint(p, uint64(off)) //nolint:gosec // an offset is not negative
	return binary.AppendUvarint(p, uint64(n))
}

func appendVoid(p []byte, file uint64) []byte {
	return binary.AppendUvarint(append(p, kindVoid), file)
}

// entry is one entry of a record.
type entry struct {
	kind byte
	file uint64
	off  int64
	data []byte // the path of a name, the bytes of a write
}

// decodeEntries calls f for each entry of a record.
func decodeEntries(p []byte, f func(entry) error) error {
	for len(p) > 0 {
		e := entry{kind: p[0]}
		p = p[1:]
		number := func() uint64 {
			v, n := binary.Uvarint(p)
			if n <= 0 {
				p = nil
				e.kind = 0
				return 0
			}
			p = p[n:]
			return v
		}
		e.file = number()
		switch e.kind {
		case kindWrite:
			e.off = int64(number()) //nolint:gosec // checked below
			fallthrough
		case kindName:
			n := number()
			if n > uint64(len(p)) || e.off < 0 {
				return errFormat
			}
			e.data, p = p[:n], p[n:]
		case kindVoid:
		default:
			return errFormat
		}
		if e.kind == 0 {
			return errFormat
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}
