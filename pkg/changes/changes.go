// Package changes is the codec of a journal of changes after a snapshot, whose end may be torn.
// It does not interpret the changes.
package changes

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A file is records of changes that follow one snapshot, little endian. The
// checksum is CRC-32C over everything after it. synced is how much of the file was
// known to be on disk when the record was written: an unreadable part below it is
// damage, any other may be a torn write.
//
//	+----------+--------+-------------------+--------+--------+
//	| checksum | length | snapshot's number | synced | change |
//	|   u32    |  u32   |        u64        |  u64   | length |
//	+----------+--------+-------------------+--------+--------+
const (
	headerBytes = 24
	summed      = 4 // where the checksum starts to count
	baseAt      = 8 // where the snapshot's number is

	// MaxChange is the maximum size of a change, in bytes.
	MaxChange = 8 << 20
)

// Append appends to dst the record of a change that follows the snapshot base. synced is how
// much of the file is known to be on disk.
func Append(dst []byte, base, synced uint64, change []byte) []byte {
	le := binary.LittleEndian
	from := len(dst)
	dst = le.AppendUint32(dst, 0) // the checksum
	dst = le.AppendUint32(dst, uint32(len(change)))
	dst = le.AppendUint64(dst, base)
	dst = le.AppendUint64(dst, synced)
	dst = append(dst, change...)
	le.PutUint32(dst[from:], crc32.Checksum(dst[from+summed:], crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

// Record is a decoded record.
type Record struct {
	At, Size int // Size 0 if none
	Synced   uint64
	Change   []byte
}

// Next returns the first intact record of a file, at or after from, that
// follows the snapshot base.
func Next(data []byte, from int, base uint64) Record {
	if r := recordAt(data, from, base); r.Size > 0 {
		return r
	}
	mark := binary.LittleEndian.AppendUint64(nil, base)
	for at := from + 1; at+headerBytes <= len(data); at++ {
		i := bytes.Index(data[at+baseAt:], mark)
		if i < 0 {
			break
		}
		at += i
		if r := recordAt(data, at, base); r.Size > 0 {
			return r
		}
	}
	return Record{}
}

// recordAt returns the record at a position, if it is intact.
func recordAt(data []byte, at int, base uint64) Record {
	le := binary.LittleEndian
	if len(data)-at < headerBytes {
		return Record{}
	}
	data = data[at:]
	length := le.Uint32(data[4:])
	if length > MaxChange || int(length) > len(data)-headerBytes || le.Uint64(data[baseAt:]) != base {
		return Record{}
	}
	raw := data[:headerBytes+int(length)]
	if crc32.Checksum(raw[summed:], crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(raw) {
		return Record{}
	}
	return Record{at, len(raw), le.Uint64(data[baseAt+8:]), raw[headerBytes:]}
}
