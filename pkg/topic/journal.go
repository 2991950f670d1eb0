package topic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/changes"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// journal keeps the changes that follow a snapshot: updates, and messages that
// ordered channels finished. Updates are synced. The others are not: a process that
// is killed loses none of them, a machine that loses power goes back to the last
// update or snapshot. There is no file before the first change.
//
// A file is records of changes that follow one snapshot: see pkg/changes.
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
	end     int64      // of what is good in the file of base; 0: recreates it
	synced  int64      // of it, known to be on disk
	named   bool       // the file's name is known to be on disk
	ragged  bool       // something before end is unreadable, or unknown: no update may follow
	buf     []byte
	closed  bool  // the directory may belong to another by now
	taken   stamp // of the leader's snapshot or update that was taken last; 0: none
	stamped stamp // the one that the file says
}

const stampVersion = 2 // a record's first byte where others have advance.Version

func journalName(base uint64) string { return fmt.Sprintf("positions.journal.%d", base%2) }

// append appends what an ordered channel finished. After an error what was noted before is
// intact.
func (j *journal) append(change []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return fmt.Errorf("append position change: %w", err)
	}
	j.buf = j.appendLocked(j.stampLocked(), change)
	return j.writeLocked()
}

// update appends an update and syncs the file. After an error, the next snapshot
// must be stored before another update can. Of calls of update, follow and close,
// there is one at a time.
func (j *journal) update(change []byte) error {
	f, end, err := j.writeUpdate(change)
	if err == nil {
		err = f.SyncData()
	}
	if err == nil && !j.isNamed() {
		err = j.fs.SyncDir(j.dir)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.ragged = true
		return fmt.Errorf("append position update: %w", err)
	}
	j.synced, j.named = max(j.synced, end), true
	return nil
}

func (j *journal) writeUpdate(change []byte) (vfs.File, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ragged {
		return nil, 0, errRagged
	}
	if err := j.open(); err != nil {
		return nil, 0, err
	}
	j.buf = j.appendLocked(j.buf[:0], change)
	err := j.writeLocked()
	if cap(j.buf) > maxKeptBuffer {
		j.buf = nil
	}
	return j.file, j.end, err
}

// errRagged is wrapped by the error of an update that must be a snapshot instead.
var errRagged = errors.New("earlier position changes may not be stored")

// takesUpdates reports whether an update may be stored.
func (j *journal) takesUpdates() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.ragged
}

func (j *journal) isNamed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.named
}

// size returns how long the file of the newest snapshot's changes is.
func (j *journal) size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// setSnapshot says which of the leader's snapshots the changes follow that are noted
// from now on.
func (j *journal) setSnapshot(s stamp) {
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
		return fmt.Errorf("record snapshot in use: %w", err)
	}
	return j.writeLocked()
}

// stampLocked returns the record of the snapshot that was taken last, in j.buf,
// or nothing where the file has it.
func (j *journal) stampLocked() []byte {
	if j.taken == j.stamped || j.taken == 0 {
		return j.buf[:0]
	}
	return j.appendLocked(j.buf[:0], binary.AppendUvarint([]byte{stampVersion}, uint64(j.taken)))
}

func (j *journal) writeLocked() error {
	if _, err := j.file.WriteAt(j.buf, j.end); err != nil {
		return fmt.Errorf("append position change: %w", err)
	}
	j.end += int64(len(j.buf))
	j.stamped = j.taken
	return nil
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
	j.base, j.end, j.synced, j.stamped = number, 0, 0, 0
	j.named, j.ragged = false, false
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

// replayed is what replay has found.
type replayed struct {
	damage error // something is unreadable that had been on disk
	beyond bool  // an update follows the snapshot after the one that was found
}

// replay makes the changes to m that follow the snapshot of a number, which is
// the newest that is stored, or one that was being made after it. What is noted
// from then on comes behind them. Changes behind an unreadable one count: each
// says what is true of the messages that it names, and a position without the
// unreadable one says less, and nothing wrong.
func (j *journal) replay(number uint64, m *mirror) (found replayed, err error) {
	j.base, j.end = number, 0
	return j.replayBases(number, number+1, m)
}

// replayOne is replay of the changes that follow one snapshot.
func (j *journal) replayOne(number uint64, m *mirror) (replayed, error) {
	j.base, j.end = number, 0
	return j.replayBases(number, number, m)
}

func (j *journal) replayBases(number, last uint64, m *mirror) (found replayed, err error) {
	for base := number; base <= last; base++ {
		path := filepath.Join(j.dir, journalName(base))
		data, err := vfs.ReadFile(j.fs, path, maxPositionsBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EISDIR) {
			found.damage = errors.Join(found.damage, err)
			continue
		}
		if err != nil {
			return found, fmt.Errorf("read position changes: %w", err)
		}
		updates, damage := j.replayFile(data, base, m)
		if damage != nil {
			found.damage = errors.Join(found.damage, fmt.Errorf("%s: %w", path, damage))
		}
		found.beyond = found.beyond || updates && base > number
	}
	return found, nil
}

// replayFile makes the changes to m that are in a file and follow the snapshot of
// base. It says whether there were updates, and what is damaged.
func (j *journal) replayFile(data []byte, base uint64, m *mirror) (updates bool, damage error) {
	bad := -1 // where something unreadable begins that is not known to be damaged
	for at := 0; ; {
		next := changes.Next(data, at, base)
		if next.Size == 0 {
			return updates, damage
		}
		if next.At > at && bad < 0 {
			bad = at
		}
		if bad >= 0 && next.Synced > uint64(bad) { //nolint:gosec // an index
			damage, bad = fmt.Errorf("%w: position changes at byte %d", errPositionsDamaged, bad), -1
		}
		if base != j.base {
			j.base, j.stamped, j.ragged = base, 0, false
		}
		j.ragged = j.ragged || next.At > at
		updates = j.takeRecord(next.Change, m) || updates
		at = next.At + next.Size
		j.end = int64(at)
	}
}

// takeRecord makes one change, and says whether it was an update. One that cannot be
// read has a right checksum and is of a newer program: it is left out.
func (j *journal) takeRecord(change []byte, m *mirror) (isUpdate bool) {
	if taken, ok := decodeStamp(change); ok {
		j.taken, j.stamped = taken, taken
	} else if all, err := advance.Decode(change); err == nil {
		for _, a := range all {
			m.advance(a)
		}
	} else if u, err := decodeUpdate(change); err == nil {
		if u.stamp != 0 {
			j.taken, j.stamped = u.stamp, u.stamp
		}
		m.update(u)
		return true
	}
	return false
}

// appendLocked appends the record of a change to dst, which is to be written next.
func (j *journal) appendLocked(dst, change []byte) []byte {
	return changes.Append(dst, j.base, uint64(j.synced), change) //nolint:gosec // not negative
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
