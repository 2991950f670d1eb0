package redo

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// notes are bytes that files store about other files. While the journal holds writes of a file, a
// note about it need not be stored: a replay restores the writes, and so repairs the damage that
// the note would reveal. A note that changes with every sync is therefore written only once per
// generation of the journal. The methods are safe for concurrent use.
type notes struct {
	fs vfs.FS

	// writing is held while a note is written, so that an older note does not overwrite newer bytes
	// in its file. It is taken before mu.
	writing sync.Mutex

	mu       sync.Mutex       // guards what follows, and note and ending of all files; taken before the journal's
	kept     map[string]*file // by the path of the file that stores the note: the file that the note is about
	settling uint32           // the halves that are being settled, as in file.live
}

// note is bytes for a file.
type note struct {
	path string
	p    []byte
	off  int64
}

// keep keeps a note for the file to, in place of an older note, while the journal holds writes of
// about: at least the newest one, without which damage could look like a torn end. It returns false
// if the journal does not hold them, or is about to forget them.
func (n *notes) keep(to, about *file, p []byte, off int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if about.ending > 0 || about.live.Load()&^n.settling == 0 {
		return false
	}
	if about.note == nil || about.note.path != to.path { // else the kept note is replaced
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

// forget drops the note for a file, because the file will store something else. If the note is
// being written, forget waits for that.
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

// markSettling notes whether a half is being settled. Meanwhile no note is kept about a file unless
// the other half holds writes of it.
func (n *notes) markSettling(half int, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settling &^= 1 << half
	if on {
		n.settling |= 1 << half
	}
}

// write writes the kept note about a file before the journal forgets all its writes. From then on
// no note about the file is kept, until ended is called.
func (n *notes) write(about *file) error {
	n.mu.Lock()
	about.ending++
	n.mu.Unlock()
	return n.flush(about)
}

// flush writes the kept note about a file. If the disk has no space for the note, flush drops it,
// as happens without a journal: a later note will follow.
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
	if vfs.LacksRoom(err) || errors.Is(err, fs.ErrNotExist) { // or the note's file was removed with the file that it is about
		return nil
	}
	return err
}

// ended is called when the journal has forgotten the writes of a file.
func (n *notes) ended(about *file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	about.ending--
}

// writeTo writes the kept note for a file, if there is one.
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
