package positions

import (
	"errors"
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Standby stores the positions of a followed partition as received from its leader, so that a
// Partition can be opened on them when this node leads. It exists while the node follows, and
// trusts the leader: entries about messages that have not arrived yet are kept.
//
// Its methods are safe for concurrent use. The leader's data arrives in the leader's order,
// from one goroutine.
type Standby struct {
	unsaved func() // called when behind becomes true

	saving sync.Mutex // held during disk access; guards what follows
	files  *files
	newest stamp // of the newest snapshot or update applied; 0: none yet

	mu     sync.Mutex // guards what follows
	known  mirror     // including later changes
	behind bool       // known is newer than the stored positions
	closed bool       // refuse everything: a leader would count on it
}

// StandbyOptions describe a Standby.
type StandbyOptions struct {
	FS  vfs.FS
	Dir string // of the replica
	// End is the log's. Stored positions of messages beyond it are erased, because other messages
	// may get these offsets.
	End seq.Offset
	// Damaged is called if stored positions are damaged. The intact part, if any, is used until
	// the leader sends them.
	Damaged func(error)
	// Unsaved, if set, signals that Checkpoint has work to do, once until it is called, with
	// locks held: it must not block.
	Unsaved func()
}

// OpenStandby opens the positions in a replica's directory.
func OpenStandby(o StandbyOptions) (*Standby, error) {
	files, known, err := openFiles(o.FS, o.Dir)
	switch {
	case err == nil:
		err = files.damaged
	case fate.Of(err) != fate.Corrupt:
		return nil, err
	default:
		known.Lost = true
		if renamed := files.replaceAll(); renamed != nil {
			return nil, renamed
		}
	}
	if err != nil {
		o.Damaged(err)
	}
	s := &Standby{files: files, known: mirror{snap: known}, newest: files.journal.taken, unsaved: o.Unsaved}
	return s, s.Cut(o.End)
}

// Cut erases the positions of messages at or beyond end, where the log is about to be truncated:
// other messages may get these offsets. When it returns nil, that is on disk.
func (s *Standby) Cut(end seq.Offset) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	reaches := !s.closed && s.known.snapshot().reaches(end)
	if reaches {
		s.known.set(s.known.snap.below(end))
		s.fallBehindLocked()
	}
	s.mu.Unlock()
	if !reaches {
		return nil
	}
	s.takes(0) // the same leader may send it again
	return s.store()
}

// Replace replaces the positions by a snapshot of the leader, which is on disk when it returns nil.
// Messages known here as finished stay finished, because the leader may not have learned of them
// from its predecessor; a channel moves back only where an operator moved it. A snapshot received
// before from the same leader, even before a restart of this process, has no effect, because later
// changes are newer. Invalid bytes are refused, and a failed write keeps the previous state. It
// does not retain the bytes.
func (s *Standby) Replace(snapshot []byte) error {
	number, snap, err := decodeSnapshot(snapshot)
	if err == nil && imageSize(snapshot) != len(snapshot) {
		err = damaged("trailing bytes")
	}
	if err != nil {
		return fate.Mark(fmt.Errorf("apply positions from leader: %w", err), fate.Refused)
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.isClosed() {
		return errClosed
	}
	if stamp(number).repeats(s.newest) {
		return nil
	}
	holds, kept := s.keep(&snap)
	if holds {
		s.takes(stamp(number))
		return nil
	}
	if err := s.files.Begin(); err != nil {
		return err
	}
	if kept {
		err = s.files.Save(snap)
	} else {
		err = s.files.saveCopy(snapshot)
	}
	if err != nil {
		return err
	}
	s.takes(stamp(number))
	s.mu.Lock()
	s.known.set(snap)
	s.behind = false
	s.mu.Unlock()
	return nil
}

// Update applies an update of the leader, which is on disk when it returns nil. An update
// received before has no effect. It does not retain the bytes.
func (s *Standby) Update(data []byte) error {
	u, err := decodeUpdate(data)
	if err != nil {
		return fate.Mark(fmt.Errorf("apply positions from leader: %w", err), fate.Refused)
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.isClosed() {
		return errClosed
	}
	if u.stamp.repeats(s.newest) {
		return nil
	}
	if !s.files.takesUpdates() {
		s.updateKnown(u, true)
		before := s.newest
		s.takes(u.stamp)
		if err := s.store(); err != nil {
			s.takes(before) // a repetition is stored
			return err
		}
		return nil
	}
	if err := s.files.Update(data); err != nil {
		return err
	}
	s.takes(u.stamp)
	s.updateKnown(u, s.files.grown()) // the next checkpoint stores a snapshot of it
	return nil
}

func (s *Standby) updateKnown(u Update, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.update(u)
	if behind {
		s.fallBehindLocked()
	}
}

// takes records, with saving held, which snapshot was applied.
func (s *Standby) takes(number stamp) {
	s.newest = number
	s.files.journal.setSnapshot(number)
}

// keep adds to a snapshot of the leader the messages known here as finished, and reports whether there
// was any. holds means that the result equals the stored snapshot.
func (s *Standby) keep(snap *Snapshot) (holds, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known.snapshot()
	for i := range snap.Channels {
		kept = snap.Channels[i].keep(known) || kept
	}
	return s.files.damaged == nil && !s.behind && known.equal(snap), kept
}

// Advance applies a change of the leader. It survives a kill of the process, but not a power
// failure before the next Checkpoint. A change received before has no effect.
func (s *Standby) Advance(change []byte) error {
	all, err := advance.Decode(change)
	if err != nil {
		return fate.Mark(err, fate.Refused)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if err := s.files.Append(change); err != nil {
		return err
	}
	for _, a := range all {
		s.known.advance(a)
	}
	s.fallBehindLocked()
	return nil
}

// fallBehindLocked records that known is newer than the stored positions.
func (s *Standby) fallBehindLocked() {
	if !s.behind && s.unsaved != nil {
		s.unsaved()
	}
	s.behind = true
}

// Floor returns the offset below which no channel needs a message any more.
func (s *Standby) Floor() seq.Offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.snap.floor()
}

// Checkpoint stores the changes since the last stored snapshot. After an error the previously
// stored version is intact, and the next call retries.
func (s *Standby) Checkpoint() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.isClosed() {
		return nil
	}
	return s.store()
}

func (s *Standby) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close stores pending state; nothing is written afterwards. Later data of a leader is refused.
func (s *Standby) Close() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	return errors.Join(s.store(), s.files.Close())
}

// store writes changes. It is called with saving held.
func (s *Standby) store() error {
	s.mu.Lock()
	if !s.behind {
		s.mu.Unlock()
		return nil
	}
	s.behind = false
	err := errors.Join(s.files.Begin(), s.files.journal.stamp())
	var image []byte
	if err == nil {
		image, err = s.files.encode(*s.known.snapshot())
	}
	s.mu.Unlock()
	if err == nil {
		err = s.files.saveImage(image)
	}
	if err != nil {
		s.mu.Lock()
		s.fallBehindLocked()
		s.mu.Unlock()
		return fmt.Errorf("store positions: %w", err)
	}
	return nil
}

// stamp numbers shares: stamps of one term grow. A shared snapshot has it where a stored one has
// its own number.
type stamp uint64

const stampBits = 32 // of a stamp that number the snapshots of one epoch

func stampOf(e seq.Epoch, n uint32) stamp { return stamp(uint64(e)<<stampBits | uint64(n)) }

// repeats reports whether s is from the same leader as known and not newer.
func (s stamp) repeats(known stamp) bool {
	return s>>stampBits == known>>stampBits && s <= known
}
