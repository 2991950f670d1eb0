package positions

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

// journal holds the changes that follow a snapshot: updates, and finished messages of ordered
// channels. Updates are synced. The others are not: if the process is killed, none is lost; a
// machine that loses power returns to the last update or snapshot. There is no file before the
// first change.
//
// A file holds records of changes that follow one snapshot: see pkg/changes.
//
// On a follower, the number of the leader's snapshot that the changes follow is written before
// them, in place of a change: a byte 2, and the number as a varint.
//
// Two files are used in turn, so that the changes that follow the previous snapshot stay until the
// next one is stored.
type journal struct {
	fs  vfs.FS
	dir string

	mu      sync.Mutex // guards what follows; held during writes that are not synced
	base    uint64     // number of the snapshot that new changes follow
	file    vfs.File   // nil if not open
	end     int64      // end of the valid part of base's file; 0: recreate the file
	synced  int64      // length known to be on disk
	named   bool       // the file's name is known to be on disk
	ragged  bool       // something before end is unreadable, or unknown: no update may follow
	buf     []byte
	closed  bool  // the directory may have another owner by now
	taken   stamp // of the last applied snapshot or update of the leader; 0: none
	stamped stamp // the stamp in the file
}

const stampVersion = 2 // a record's first byte where others have advance.Version

func journalName(base uint64) string { return fmt.Sprintf("positions.journal.%d", base%2) }

// append appends finishes of an ordered channel. After an error the earlier records are intact.
func (j *journal) append(change []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return fmt.Errorf("append position change: %w", err)
	}
	j.buf = j.appendLocked(j.stampLocked(), change)
	return j.writeLocked()
}

// update appends an update and syncs the file. After an error, the next snapshot must be stored
// before another update can be. Only one call of update, follow or close runs at a time.
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

// errRagged is wrapped by the error of an update that must be replaced by a snapshot.
var errRagged = errors.New("earlier position changes may not be stored")

// takesUpdates reports whether an update of the stored snapshot with a number may be stored. One that
// follows a snapshot that could not be stored would be repeated over a newer one.
func (j *journal) takesUpdates(number uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.ragged && j.base == number
}

func (j *journal) isNamed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.named
}

// size returns the length of the file of the newest snapshot's changes.
func (j *journal) size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// setSnapshot sets the leader's snapshot that the changes recorded from now on follow.
func (j *journal) setSnapshot(s stamp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = s
}

// stamp records the last applied snapshot, in case that no change follows soon.
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

// stampLocked returns, in j.buf, the record of the last applied snapshot, or nothing if the file
// has it.
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
		return errClosed
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

// follow announces that the snapshot with a number is about to be made: changes recorded from now
// on follow it.
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

// close closes the journal: nothing more is recorded.
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

// replayed is the result of replay.
type replayed struct {
	damage error // an unreadable part that had been on disk
	beyond bool  // an update follows the snapshot after the one that was found
}

// replay applies to m the changes that follow the snapshot with a number, the newest stored one, or
// the one that was being made after it. Later changes are appended after them. Changes after an
// unreadable one count: each is valid on its own for the messages that it names, and a position
// without the unreadable one knows less, but nothing wrong.
func (j *journal) replay(number uint64, m *mirror) (found replayed, err error) {
	j.base, j.end = number, 0
	return j.replayBases(number, number+1, m)
}

// replayOne is replay for the changes that follow one snapshot.
func (j *journal) replayOne(number uint64, m *mirror) (replayed, error) {
	j.base, j.end = number, 0
	return j.replayBases(number, number, m)
}

func (j *journal) replayBases(number, last uint64, m *mirror) (found replayed, err error) {
	for base := number; base <= last; base++ {
		path := filepath.Join(j.dir, journalName(base))
		data, err := vfs.ReadFile(j.fs, path, maxImageBytes)
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

// replayFile applies to m the changes in a file that follow the snapshot base. It reports whether
// there were updates, and the damage.
func (j *journal) replayFile(data []byte, base uint64, m *mirror) (updates bool, damage error) {
	bad := -1 // start of an unreadable part that is not known to be damage
	for at := 0; ; {
		next := changes.Next(data, at, base)
		if next.Size == 0 {
			return updates, damage
		}
		if next.At > at && bad < 0 {
			bad = at
		}
		if bad >= 0 && next.Synced > uint64(bad) { //nolint:gosec // an index
			damage, bad = fmt.Errorf("%w: position changes at byte %d", errDamaged, bad), -1
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

// takeRecord applies one change, and reports whether it was an update. An undecodable change with a
// correct checksum is from a newer program and is skipped.
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

// decodeStamp reads the number of a leader's snapshot, if the record contains one.
func decodeStamp(change []byte) (stamp, bool) {
	if len(change) < 2 || change[0] != stampVersion {
		return 0, false
	}
	v, n := binary.Uvarint(change[1:])
	return stamp(v), n == len(change)-1
}
