// Package commitnote reads and writes the file in which a log notes its committed end.
package commitnote

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The note of the committed end: two slots that are written in turn, in
// little-endian order:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDCMT" 1           | CRC-32C   | epoch     |
//	+-----------------------+-----------+-----------+
//	| committed end         | end position          |
//	+-----------------------+-----------------------+
//
// The epoch is that of the batch that ends at the committed end; 0: it is not known. The CRC covers
// everything behind it in the slot. The file is not synced: it
// survives a kill of the process, and a loss of power may take it back.
const (
	Name      = "committed"
	magic     = "BRKDCMT\x01"
	SlotBytes = 32
	Slots     = 2
)

func checksum(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// Encode returns a slot. An epoch that does not fit is not noted.
func Encode(committed seq.Offset, position int64, epoch seq.Epoch) []byte {
	p := make([]byte, SlotBytes)
	copy(p, magic)
	binary.LittleEndian.PutUint64(p[16:], uint64(committed))
	binary.LittleEndian.PutUint64(p[24:], uint64(position)) //nolint:gosec // a position is not negative
	if epoch <= math.MaxUint32 {
		binary.LittleEndian.PutUint32(p[12:], uint32(epoch))
	}
	binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// Decode reads a slot. It returns ok=false for a slot that was not written or is torn.
func Decode(p []byte) (n Noted, ok bool) {
	le := binary.LittleEndian
	if string(p[:8]) != magic || le.Uint32(p[8:]) != checksum(p[12:SlotBytes]) {
		return Noted{}, false
	}
	n.Epoch = seq.Epoch(le.Uint32(p[12:]))
	n.Committed, n.Position = seq.Offset(le.Uint64(p[16:])), int64(le.Uint64(p[24:])) //nolint:gosec // checked next
	return n, n.Committed <= seq.MaxOffset+1 && n.Position >= 0
}

// Noted is what a commit note holds.
type Noted struct {
	Committed seq.Offset // the highest; 0 where no slot is intact
	Position  int64      // the log's end position then
	Epoch     seq.Epoch  // of the batch that ends at Committed; 0: not known
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
	p := make([]byte, min(size, Slots*SlotBytes)) // nothing follows the slots
	if err := vfs.ReadFull(f, p, 0); err != nil {
		return Noted{}, err
	}
	for slot := int64(0); len(p) >= SlotBytes; slot, p = slot+1, p[SlotBytes:] {
		if s, ok := Decode(p); ok && s.Committed > n.Committed {
			n = s
			n.Next = (slot + 1) % Slots
		}
	}
	return n, nil
}

// Reset replaces the note, durably.
func Reset(fsys vfs.FS, dir string, committed seq.Offset, position int64) error {
	return vfs.WriteFileSynced(fsys, filepath.Join(dir, Name), Encode(committed, position, 0))
}
