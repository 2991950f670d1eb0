package topic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// journal keeps what was finished in order since the newest snapshot, so that a
// process that is killed has lost nothing of it. It is written and not synced: a
// machine that loses power goes back to the snapshot. There is no file before the
// first change.
//
// A file is records of changes that follow one snapshot, little endian. The
// checksum is CRC-32C over everything after it. What does not match, or follows
// another snapshot, ends the file.
//
//	+----------+--------+--------------------+--------+
//	| checksum | length | snapshot's number  | change |
//	|   u32    |  u32   |        u64         | length |
//	+----------+--------+--------------------+--------+
//
// On a follower, the number of the leader's snapshot that the changes follow stands
// before them, in place of a change: a byte 2, and the number as a varint.
//
// Two files take turns, so that those changes stay which follow the snapshot
// before, until the next one is stored.
type journal struct {
	fs  vfs.FS
	dir string

	mu      sync.Mutex // guards what follows; held over a write that nobody waits to be synced
	base    uint64     // number of the snapshot that changes follow from now on
	file    vfs.File   // nil: not open
	end     int64      // of what is good in the file of base; 0: make it anew
	buf     []byte
	closed  bool                // the directory may belong to another by now
	ordered map[string]struct{} // channels that were noted or found; nil: none
	taken   stamp               // of the leader's snapshot that was taken last; 0: none
	stamped stamp               // the one that the file says
}

const (
	journalHeader = 16
	journalSummed = 4 // where the checksum starts to count
	// maxChangeBytes bounds a record: a name and some numbers.
	maxChangeBytes = 1 << 10
	stampVersion   = 2 // a record's first byte where others have advanceVersion
)

func journalName(base uint64) string { return fmt.Sprintf("positions.journal.%d", base%2) }

// note appends a change of a channel. After an error what was noted before is
// intact.
func (j *journal) note(channel string, change []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return fmt.Errorf("note a change of positions: %w", err)
	}
	j.buf = appendJournal(j.stampLocked(), j.base, change)
	if err := j.writeLocked(); err != nil {
		return err
	}
	j.learnLocked(channel)
	return nil
}

// take says which of the leader's snapshots the changes follow that are noted
// from now on.
func (j *journal) take(s stamp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = s
}

// stamp notes which snapshot was taken last, for when no change follows soon.
func (j *journal) stamp() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.buf = j.stampLocked(); len(j.buf) == 0 {
		return nil
	}
	if err := j.open(); err != nil {
		return fmt.Errorf("note which positions were taken: %w", err)
	}
	return j.writeLocked()
}

// stampLocked returns the record of the snapshot that was taken last, in j.buf,
// or nothing where the file has it.
func (j *journal) stampLocked() []byte {
	if j.taken == j.stamped || j.taken == 0 {
		return j.buf[:0]
	}
	return appendJournal(j.buf[:0], j.base, binary.AppendUvarint([]byte{stampVersion}, uint64(j.taken)))
}

func (j *journal) writeLocked() error {
	if _, err := j.file.WriteAt(j.buf, j.end); err != nil {
		return fmt.Errorf("note a change of positions: %w", err)
	}
	j.end += int64(len(j.buf))
	j.stamped = j.taken
	return nil
}

// knows tells whether something of a channel was ever noted.
func (j *journal) knows(channel string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.ordered[channel]
	return ok
}

func (j *journal) learnLocked(channel string) {
	if _, ok := j.ordered[channel]; ok {
		return
	}
	if j.ordered == nil {
		j.ordered = map[string]struct{}{}
	}
	j.ordered[channel] = struct{}{}
}

func (j *journal) open() (err error) {
	switch {
	case j.closed:
		return errPartitionClosed
	case j.file != nil:
		return nil
	}
	path := filepath.Join(j.dir, journalName(j.base))
	if j.end == 0 {
		j.file, err = j.fs.Create(path)
	} else {
		j.file, err = j.fs.OpenReadWrite(path)
	}
	return err
}

// follow says that the snapshot of a number is about to be made: what is noted
// from now on follows it.
func (j *journal) follow(number uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if number == j.base {
		return nil
	}
	err := j.closeLocked()
	j.base, j.end, j.stamped = number, 0, 0
	return err
}

// close ends the journal: nothing more is noted.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return j.closeLocked()
}

func (j *journal) closeLocked() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}

// replay makes the changes to s that follow the snapshot of a number, which is
// the newest that is stored, or one that was being made after it. What is noted
// from then on comes behind them.
func (j *journal) replay(number uint64, s *Snapshot) error {
	j.base, j.end = number, 0
	for base := number; base <= number+1; base++ {
		data, err := vfs.ReadFile(j.fs, filepath.Join(j.dir, journalName(base)), MaxPositionsBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the changes of positions: %w", err)
		}
		rest := data
		for {
			change, n := nextJournal(rest, base)
			if n == 0 {
				break
			}
			if base != j.base {
				j.stamped = 0
			}
			if taken, ok := decodeStamp(change); ok {
				j.taken, j.stamped = taken, taken
			} else if a, err := decodeAdvance(change); err == nil {
				s.apply(a)
				j.learnLocked(a.channel)
			} else {
				break
			}
			rest = rest[n:]
			j.base, j.end = base, int64(len(data)-len(rest))
		}
	}
	return nil
}

func appendJournal(dst []byte, base uint64, change []byte) []byte {
	le := binary.LittleEndian
	from := len(dst)
	dst = le.AppendUint32(dst, 0) // the checksum
	dst = le.AppendUint32(dst, uint32(len(change)))
	dst = le.AppendUint64(dst, base)
	dst = append(dst, change...)
	le.PutUint32(dst[from:], crc32.Checksum(dst[from+journalSummed:], crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

// nextJournal returns what the record at the front of a file that follows base
// says, and how long it is; 0: there is none.
func nextJournal(data []byte, base uint64) (change []byte, size int) {
	le := binary.LittleEndian
	if len(data) < journalHeader {
		return nil, 0
	}
	length := le.Uint32(data[4:])
	if length > maxChangeBytes || int(length) > len(data)-journalHeader || le.Uint64(data[8:]) != base {
		return nil, 0
	}
	record := data[:journalHeader+int(length)]
	if crc32.Checksum(record[journalSummed:], crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(record) {
		return nil, 0
	}
	return record[journalHeader:], len(record)
}

// decodeStamp reads the number of a leader's snapshot, if that is what a record
// says.
func decodeStamp(change []byte) (stamp, bool) {
	if len(change) < 2 || change[0] != stampVersion {
		return 0, false
	}
	v, n := binary.Uvarint(change[1:])
	return stamp(v), n == len(change)-1
}
