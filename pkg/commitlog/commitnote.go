package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

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
// survives a kill of the process, and a loss of power may take it back. While the batches
// up to the committed end are in the node's redo journal as well, it is not even written:
// see vfs.WriteNote.
const (
	commitNoteName  = "committed"
	commitNoteMagic = "BRKDCMT\x01"
	commitSlotBytes = 32
	commitSlots     = 2
)

// commitNote keeps the committed end of a log on disk.
type commitNote struct {
	mu    sync.Mutex // guards what follows
	file  vfs.File   // nil: not open
	slot  int64      // that is written next
	noted seq.Offset
	over  bool // the log is closed
}

func encodeCommitSlot(committed seq.Offset, position int64) []byte {
	p := make([]byte, commitSlotBytes)
	copy(p, commitNoteMagic)
	binary.LittleEndian.PutUint64(p[16:], uint64(committed))
	binary.LittleEndian.PutUint64(p[24:], uint64(position)) //nolint:gosec // a position is not negative
	binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// decodeCommitSlot returns ok=false for a slot that was not written or is torn.
func decodeCommitSlot(p []byte) (committed seq.Offset, position int64, ok bool) {
	le := binary.LittleEndian
	if string(p[:8]) != commitNoteMagic || le.Uint32(p[8:]) != checksum(p[12:commitSlotBytes]) {
		return 0, 0, false
	}
	committed, position = seq.Offset(le.Uint64(p[16:])), int64(le.Uint64(p[24:])) //nolint:gosec // checked next
	return committed, position, committed <= seq.MaxOffset+1 && position >= 0
}

// writeLocked notes a committed end. Without room for the note the log goes on: a
// later one replaces it. Any other error fails the log.
func (n *commitNote) writeLocked(l *Log, committed seq.Offset) {
	if n.over || committed <= n.noted {
		return
	}
	if n.file == nil {
		f, err := openCommitNote(l.fs, l.dir)
		if err != nil {
			failNote(l, err)
			return
		}
		n.file = f
	}
	p, off := encodeCommitSlot(committed, l.endPos.Load()), n.slot*commitSlotBytes
	var err error
	if o := l.synced.Load(); o != nil && committed <= l.DurableEnd() {
		err = vfs.WriteNote(n.file, o.file, p, off)
	} else {
		_, err = n.file.WriteAt(p, off)
	}
	if err != nil {
		failNote(l, err)
		return
	}
	n.noted = committed
	n.slot = (n.slot + 1) % commitSlots
}

// keep notes the committed end that Open has found, if the note holds less.
func (n *commitNote) keep(l *Log) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.madeDir {
		n.writeLocked(l, l.CommittedEnd())
	}
}

func failNote(l *Log, err error) {
	if !vfs.LacksRoom(err) {
		_ = l.fail(fmt.Errorf("write committed end: %w", err))
	}
}

func openCommitNote(fsys vfs.FS, dir string) (vfs.File, error) {
	path := filepath.Join(dir, commitNoteName)
	f, err := fsys.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fsys.Create(path)
	}
	return f, err
}

// close ends the note: nothing more is written.
func (n *commitNote) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.release()
}

// release closes the file until the next write.
func (n *commitNote) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file != nil {
		_ = n.file.Close()
		n.file = nil
	}
}

// noted is what a commit note holds.
type noted struct {
	committed seq.Offset // the highest; 0 where no slot is intact
	position  int64      // the log's end position then
	next      int64      // the slot to write next: not the one that holds this
}

func readCommitNote(fsys vfs.FS, dir string) (n noted, err error) {
	f, err := fsys.Open(filepath.Join(dir, commitNoteName))
	if errors.Is(err, fs.ErrNotExist) {
		return noted{}, nil
	}
	if err != nil {
		return noted{}, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return noted{}, err
	}
	p := make([]byte, min(size, commitSlots*commitSlotBytes)) // nothing is written behind the slots
	if err := vfs.ReadFull(f, p, 0); err != nil {
		return noted{}, err
	}
	for slot := int64(0); len(p) >= commitSlotBytes; slot, p = slot+1, p[commitSlotBytes:] {
		if c, pos, ok := decodeCommitSlot(p); ok && c > n.committed {
			n = noted{c, pos, (slot + 1) % commitSlots}
		}
	}
	return n, nil
}

// resetCommitNote replaces the note, durably.
func resetCommitNote(fsys vfs.FS, dir string, committed seq.Offset, position int64) error {
	return vfs.WriteFileSynced(fsys, filepath.Join(dir, commitNoteName), encodeCommitSlot(committed, position))
}
