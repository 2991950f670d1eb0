package redo

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// notes are what files are to hold about other files. While the journal holds what a note
// is about, the note need not be in its file: a replay brings back what it is to tell, so
// that damage to that is repaired. A note that changes with every sync is so written once
// in the life of a half of the journal. The methods is safe for concurrent use.
type notes struct {
	fs vfs.FS

	// writing is held while a note is written, so that nothing older comes over what is
	// written to its file otherwise. It is taken before mu.
	writing sync.Mutex

	mu       sync.Mutex       // guards what follows, and note and ending of all files; taken before the journal's
	kept     map[string]*file // by the path that a note is to be written to: the file that it is about
	settling uint32           // the halves that are being settled, as in file.live
}

// note is bytes for a file.
type note struct {
	path string
	p    []byte
	off  int64
}

// keep keeps a note to a file, in place of one that is kept, while the journal holds
// what it is about: the newest of it at least, without which no damage looks like a torn end. It
// returns false if it does not, or is about to forget it.
func (n *notes) keep(to, about *file, p []byte, off int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if about.ending > 0 || about.live.Load()&^n.settling == 0 {
		return false
	}
	if about.note == nil || about.note.path != to.path { // else it is the one that is kept
		if of := n.kept[to.path]; of != nil && of != about {
			of.note = nil
		}
		n.dropLocked(about)
		about.note = &note{path: to.path}
		n.kept[to.path] = about
	}
	about.note.p, about.note.off = append(about.note.p[:0], p...), off
	to.noted.Store(true)
	return true
}

// forget drops the note that is to be written to a file, because the file will hold
// something else. One that is being written is there when forget returns.
func (n *notes) forget(to *file) {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	to.noted.Store(false)
	if of := n.kept[to.path]; of != nil {
		n.dropLocked(of)
	}
}

func (n *notes) dropLocked(about *file) {
	if about.note != nil {
		delete(n.kept, about.note.path)
		about.note = nil
	}
}

// markSettling says that a half is being settled, or no longer. Meanwhile no note is kept about a file
// of which the other half holds nothing.
func (n *notes) markSettling(half int, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settling &^= 1 << half
	if on {
		n.settling |= 1 << half
	}
}

// write writes the note about a file, of which the journal is about to forget all that it
// holds. From here on no note about it is kept, until ended is called.
func (n *notes) write(about *file) error {
	n.mu.Lock()
	about.ending++
	n.mu.Unlock()
	return n.flush(about)
}

// flush writes the note about a file that is kept. A note for which there is no room is
// dropped, as it would be without a journal: a later one comes.
func (n *notes) flush(about *file) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.mu.Lock()
	x := about.note
	n.dropLocked(about)
	n.mu.Unlock()
	if x == nil {
		return nil
	}
	to, err := n.fs.OpenReadWrite(x.path)
	if err == nil {
		_, err = to.WriteAt(x.p, x.off)
		err = errors.Join(err, to.Close())
	}
	if vfs.LacksRoom(err) || errors.Is(err, fs.ErrNotExist) { // removed with what it is about
		return nil
	}
	return err
}

// ended is told that the journal has forgotten what it held of a file.
func (n *notes) ended(about *file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	about.ending--
}

// writeTo writes the note that is to be written to a file, if there is one.
func (n *notes) writeTo(to *file) error {
	n.mu.Lock()
	about := n.kept[to.path]
	n.mu.Unlock()
	if about == nil {
		return nil
	}
	defer n.ended(about)
	return n.write(about)
}
