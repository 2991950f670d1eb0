// Package segmenthead is the codec of the names and the headers of a log's segment files.
package segmenthead

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/seq"
)

// A segment file is named by its first offset, in 20 digits. It begins with a
// header, in little-endian order, and its batches follow without gaps:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDLOG" 1           | CRC-32C   | 0         |
//	+-----------------------+-----------+-----------+
//	| base offset           | base position         |
//	+-----------------------+-----------------------+
//	| zeros to 64                                   |
//	+-----------------------------------------------+
const (
	Bytes      = 64     // of a header
	Suffix     = ".log" // of a file's name
	magic      = "BRKDLOG\x01"
	nameDigits = 20
)

var errBad = errors.New("corrupt segment header")

// Name returns the name of the segment file that begins with an offset.
func Name(base seq.Offset) string {
	return fmt.Sprintf("%0*d%s", nameDigits, uint64(base), Suffix)
}

// ParseName returns the first offset of a segment by the name of its file.
func ParseName(name string) (seq.Offset, bool) {
	digits, ok := strings.CutSuffix(name, Suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return seq.Offset(n), err == nil && seq.Offset(n) <= seq.MaxOffset
}

func checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// Encode returns the header of a segment file, whose batches follow it.
func Encode(base seq.Offset, basePos int64) []byte {
	p := make([]byte, Bytes)
	copy(p, magic)
	binary.LittleEndian.PutUint64(p[16:], uint64(base))
	binary.LittleEndian.PutUint64(p[24:], uint64(basePos)) //nolint:gosec // a position is not negative
	binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// Decode checks a header, and returns the first offset of its segment and where that is in the
// log, in bytes.
func Decode(p []byte) (base seq.Offset, basePos int64, err error) {
	le := binary.LittleEndian
	if len(p) < Bytes || string(p[:8]) != magic || le.Uint32(p[8:]) != checksum(p[12:Bytes]) {
		return 0, 0, errBad
	}
	return seq.Offset(le.Uint64(p[16:])), int64(le.Uint64(p[24:])), nil //nolint:gosec // under a checksum
}
