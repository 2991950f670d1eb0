package redo

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// latePiece is how much of what was written to a file waits in memory before it is written
// to it. All files together keep no more than what the journal holds, beside what is
// not synced yet.
const latePiece = 16 << 10

// late is one run of bytes that belong into a file, and are in the journal or are about to be.
type late struct {
	p  *[]byte // nil: none
	at int64
	to vfs.File
}

func (l *late) end() int64 { return l.at + int64(len(*l.p)) }

// WriteDeferred keeps bytes of a live file in memory until there is a large piece of them, or
// somebody needs them in the file: see vfs.WriteDeferred.
func (h *handle) WriteDeferred(p []byte, off int64) (int, error) {
	f, j := h.file, h.fs.journal
	if !f.journaled.Load() || f.gone.Load() || f.noted.Load() || len(p) > maxKept || !j.live(f) {
		return h.WriteAt(p, off)
	}
	f.mu.Lock()
	if f.late.p != nil && (f.late.to != h.File || f.late.end() != off) {
		f.mu.Unlock()
		return h.WriteAt(p, off)
	}
	f.keepLocked(&j.buffers, p, off)
	if f.kept == nil { // the journal would have to read it from the file
		f.mu.Unlock()
		return h.WriteAt(p, off)
	}
	f.dirty = f.dirty.add(off, off+int64(len(p)))
	if f.late.p == nil {
		f.late = late{j.buffers.get(), off, h.File}
		f.isLate.Store(true)
	}
	*f.late.p = append(*f.late.p, p...)
	full := len(*f.late.p) >= latePiece
	f.mu.Unlock()
	if full {
		if err := j.land(f); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// land writes to a file what was kept in memory of it. A failure fails the journal, since
// what is kept may be durable there only.
func (j *journal) land(f *file) error {
	if !f.isLate.Load() {
		return nil
	}
	f.mu.Lock()
	err := f.landLocked(&j.buffers)
	f.mu.Unlock()
	if err != nil {
		return j.fail(err)
	}
	return nil
}

func (f *file) landLocked(buffers *buffers) error {
	if f.late.p == nil {
		return nil
	}
	if _, err := f.late.to.WriteAt(*f.late.p, f.late.at); err != nil {
		return err
	}
	buffers.put(f.late.p)
	f.late = late{}
	f.isLate.Store(false)
	return nil
}

// landFor writes what is kept of a file if any of it lies in a range that is to be read.
func (j *journal) landFor(f *file, off int64, n int) error {
	if !f.isLate.Load() {
		return nil
	}
	f.mu.Lock()
	needed := f.late.p != nil && off < f.late.end() && f.late.at < off+int64(n)
	f.mu.Unlock()
	if !needed {
		return nil
	}
	return j.land(f)
}

// ReadAt implements vfs.File.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.journal.landFor(h.file, off, len(p)); err != nil {
		return 0, err
	}
	return h.File.ReadAt(p, off)
}

// Size implements vfs.File.
func (h *handle) Size() (int64, error) {
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
	return &readHandle{File: inner, fs: s, file: s.take(name)}, nil
}

// readHandle is a file that is open for reading.
type readHandle struct {
	vfs.File
	fs     *FS
	file   *file
	closed sync.Once
}

// ReadAt implements vfs.File.
func (r *readHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := r.fs.journal.landFor(r.file, off, len(p)); err != nil {
		return 0, err
	}
	return r.File.ReadAt(p, off)
}

// Size implements vfs.File.
func (r *readHandle) Size() (int64, error) {
	if err := r.fs.journal.land(r.file); err != nil {
		return 0, err
	}
	return r.File.Size()
}

// SyncData implements vfs.File.
func (r *readHandle) SyncData() error {
	if err := r.fs.journal.land(r.file); err != nil {
		return err
	}
	return r.File.SyncData()
}

// DropCache has the system forget what it caches of a range: see vfs.DropCache.
func (r *readHandle) DropCache(off, n int64) { vfs.DropCache(r.File, off, n) }

// Close implements vfs.File.
func (r *readHandle) Close() error {
	r.closed.Do(func() { r.fs.drop(r.file, 1) })
	return r.File.Close()
}
