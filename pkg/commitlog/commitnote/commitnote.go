// Package commitnote reads and writes the file in which a log notes its committed end.
package commitnote

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The note of the committed end: two slots that are written in turn, in
// little-endian order:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDCMT" 1           | CRC-32C   | 0         |
//	+-----------------------+-----------+-----------+
//	| committed end         | end position          |
//	+-----------------------+-----------------------+
//
// The CRC covers everything behind it in the slot. The file is not synced: it
// survives a kill of the process, and a loss of power may take it back.
const (
	Name      = "committed"
	magic     = "BRKDCMT\x01"
	SlotBytes = 32
	Slots     = 2
)

func checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// Encode returns a slot.
func Encode(committed seq.Offset, position int64) []byte {
	p := make([]byte, SlotBytes)
	copy(p, magic)
	binary.LittleEndian.PutUint64(p[16:], uint64(committed))
	binary.LittleEndian.PutUint64(p[24:], uint64(position)) //nolint:gosec // a position is not negative
	binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// Decode reads a slot. It returns ok=false for a slot that was not written or is torn.
func Decode(p []byte) (committed seq.Offset, position int64, ok bool) {
	le := binary.LittleEndian
	if string(p[:8]) != magic || le.Uint32(p[8:]) != checksum(p[12:SlotBytes]) {
		return 0, 0, false
	}
	committed, position = seq.Offset(le.Uint64(p[16:])), int64(le.Uint64(p[24:])) //nolint:gosec // checked next
	return committed, position, committed <= seq.MaxOffset+1 && position >= 0
}

// Noted is what a commit note holds.
type Noted struct {
	Committed seq.Offset // the highest; 0 where no slot is intact
	Position  int64      // the log's end position then
	Next      int64      // the slot to write next: not the one that holds this
}

// Read returns what the note in a log's directory holds. Without one it holds nothing.
func Read(fsys vfs.FS, dir string) (n Noted, err error) {
	f, err := fsys.Open(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return Noted{}, nil
	}
	if err != nil {
		return Noted{}, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return Noted{}, err
	}
	p := make([]byte, min(size, Slots*SlotBytes)) // nothing is written behind the slots
	if err := vfs.ReadFull(f, p, 0); err != nil {
		return Noted{}, err
	}
	for slot := int64(0); len(p) >= SlotBytes; slot, p = slot+1, p[SlotBytes:] {
		if c, pos, ok := Decode(p); ok && c > n.Committed {
			n = Noted{c, pos, (slot + 1) % Slots}
		}
	}
	return n, nil
}

// Reset replaces the note, durably.
func Reset(fsys vfs.FS, dir string, committed seq.Offset, position int64) error {
	return vfs.WriteFileSynced(fsys, filepath.Join(dir, Name), Encode(committed, position))
}
