package redo

import (
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// latePiece is up to how many written bytes of a file wait in memory before they are written to the
// file.
const latePiece = 16 << 10

// maxLate limits the memory of such bytes of all files together. Bytes beyond it are written to
// their file at once.
const maxLate = 64 << 20

// landError is the error of writing bytes that the journal holds to their file. The current read or
// write has not failed, and callers must not take this for its error: it unwraps to nothing.
type landError struct {
	path  string
	cause error
}

func (e *landError) Error() string {
	return fmt.Sprintf("write deferred bytes to %s: %v; they are in the redo journal, restart the node to replay it", e.path, e.cause)
}

// late is one run of bytes of a file that are in the journal, or about to be, and not in the file.
type late struct {
	p  *[]byte // nil: none
	at int64
	to vfs.File
}

func (l *late) end() int64 { return l.at + int64(len(*l.p)) }

// WriteDeferred keeps bytes of a live file in memory until they are a large piece, or until a
// caller needs them in the file: see vfs.WriteDeferred.
func (h *handle) WriteDeferred(p []byte, off int64) (int, error) {
	f, j := h.file, h.fs.journal
	if !f.journaled.Load() || f.gone.Load() || f.noted.Load() || len(p) > maxKept || !j.live(f) {
		return h.WriteAt(p, off)
	}
	f.mu.Lock()
	if f.late.p != nil && (f.late.to != h.File || f.late.end() != off) || f.late.p == nil && j.lateBytes.Load() > maxLate {
		f.mu.Unlock()
		return h.WriteAt(p, off)
	}
	f.keepLocked(&j.buffers, p, off)
	if f.kept == nil { // the journal would have to read the bytes from the file
		f.mu.Unlock()
		return h.WriteAt(p, off)
	}
	f.dirty = f.dirty.add(off, off+int64(len(p)))
	if f.late.p == nil {
		f.late = late{j.pieces.get(), off, h.File}
		f.isLate.Store(true)
		j.lateBytes.Add(int64(cap(*f.late.p)))
	}
	before := cap(*f.late.p)
	*f.late.p = append(*f.late.p, p...)
	j.lateBytes.Add(int64(cap(*f.late.p) - before))
	full := len(*f.late.p) >= latePiece
	f.mu.Unlock()
	if full {
		if err := f.land(j); !vfs.OutOfFiles(err) { // else the next write tries again
			// After an error they are kept: the next read of the file writes them, if it can.
			return len(p), j.landed(f, err)
		}
	}
	return len(p), nil
}

// land writes a file's bytes in memory to the file. A failure fails the journal, since the bytes
// may be durable only there.
func (j *journal) land(f *file) error {
	if !f.isLate.Load() {
		return nil
	}
	return j.landed(f, untilFiles(func() error { return f.land(j) }))
}

// landed fails the journal after an error of what was kept.
func (j *journal) landed(f *file, err error) error {
	if err != nil {
		_ = j.fail(err)
		return &landError{f.path, err}
	}
	return nil
}

func (f *file) land(j *journal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late.p == nil {
		return nil
	}
	if _, err := f.late.to.WriteAt(*f.late.p, f.late.at); err != nil {
		return err
	}
	j.lateBytes.Add(-int64(cap(*f.late.p)))
	j.pieces.put(f.late.p)
	f.late = late{}
	f.isLate.Store(false)
	return nil
}

// lateIn reports whether bytes in memory overlap a range of the file.
func (f *file) lateIn(off int64, n int) bool {
	if !f.isLate.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late.p != nil && off < f.late.end() && f.late.at < off+int64(n)
}

// opened is what handles for reading and for writing have in common.
type opened struct {
	vfs.File
	fs     *FS
	file   *file
	closed sync.Once
}

// ReadAt implements vfs.File.
func (h *opened) ReadAt(p []byte, off int64) (int, error) {
	if h.file.lateIn(off, len(p)) {
		if err := h.fs.journal.land(h.file); err != nil {
			return 0, err
		}
	}
	return h.File.ReadAt(p, off)
}

// Size implements vfs.File.
func (h *opened) Size() (int64, error) {
	if err := h.fs.journal.land(h.file); err != nil {
		return 0, err
	}
	return h.File.Size()
}

// Open implements vfs.FS.
func (s *FS) Open(name string) (vfs.File, error) {
	inner, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &readHandle{opened{File: inner, fs: s, file: s.acquire(name)}}, nil
}

// Remove implements vfs.FS.
func (s *FS) Remove(name string) error {
	if err := s.landAll(s.named(name)); err != nil {
		return err
	}
	return s.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (s *FS) RemoveAll(name string) error {
	if err := s.landAll(append(s.named(name), s.below(name)...)); err != nil {
		return err
	}
	return s.FS.RemoveAll(name)
}

// landAll writes the bytes in memory of files that are about to be removed. A caller that has such
// a file open may still read it, and the file cannot be opened again by its name.
func (s *FS) landAll(all []*file) error {
	for _, f := range all {
		if err := s.journal.land(f); err != nil {
			return err
		}
	}
	return nil
}

// readHandle is a file that is open for reading.
type readHandle struct{ opened }

// SyncData implements vfs.File.
func (r *readHandle) SyncData() error {
	if err := r.fs.journal.land(r.file); err != nil {
		return err
	}
	return r.File.SyncData()
}

// DropCache drops a range from the system's cache: see vfs.DropCache.
func (r *readHandle) DropCache(off, n int64) { vfs.DropCache(r.File, off, n) }

// Close implements vfs.File.
func (r *readHandle) Close() error {
	r.closed.Do(func() { r.fs.drop(r.file, 1) })
	return r.File.Close()
}
