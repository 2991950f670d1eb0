package redo

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Default values of Options.
const (
	defaultFileBytes = 32 << 20
	defaultTogether  = 4
	DefaultAge       = 5 * time.Second
)

// The largest sync that goes through the journal: a larger one costs more to write twice
// than to sync. And a small journal takes none that fills much of it.
const (
	maxWrite   = 128 << 10
	writeShare = 8
)

// maxKept is how much of what was written to a file is kept in memory until it is synced.
const maxKept = vfs.MaxBegun

// Options describe an FS. The zero value of a number means its default.
type Options struct {
	Root      string        // the directory that the files are below
	Dir       string        // the directory of the journal's files
	FileBytes int64         // of each of the two
	Together  int           // from so many syncs at the same time on they go through the journal
	Age       time.Duration // how long a write may wait to be settled
	// SyncAll says that Open makes all that the file system holds durable with one call (vfs.SyncAll), in
	// place of one for each file that it writes again: see Report.OnDisk.
	SyncAll bool

	// Damaged is called by Open before anything is settled, if the journal holds damaged
	// records: any file may lack what was synced last. An error of it ends Open.
	Damaged func() error
	// Failed is called once, without waiting, when the journal has failed; nil: nobody.
	Failed func(error)
}

func (o Options) withDefaults() Options {
	if o.FileBytes == 0 {
		o.FileBytes = defaultFileBytes
	}
	if o.Together == 0 {
		o.Together = defaultTogether
	}
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	return o
}

// FS is a file system with a journal. Its methods are safe for concurrent use.
// Nobody else may write to files below its root while it is open.
type FS struct {
	vfs.FS
	o       Options
	syncing atomic.Int32 // calls of SyncData under way, and syncs that have begun
	journal *journal
	rounds  rounds

	mu    sync.Mutex       // guards files and what it says of their fields
	files map[string]*file // that are open for writing, or live
}

var _ vfs.FS = (*FS)(nil)

// file is a file of a name, through all its handles.
type file struct {
	path  string
	opens int         // handles; under FS.mu
	gone  atomic.Bool // another file has its name, or none: it is synced directly

	mu      sync.Mutex  // guards the fields below
	dirty   spans       // written since the last sync
	kept    *[]byte     // the bytes of dirty, where they are known to be one run; nil: they are to be read
	resized bool        // the length was set since the last sync
	known   bool        // all that was not synced is in dirty
	late    late        // written, and not in the file yet
	isLate  atomic.Bool // there is something in late

	journaled atomic.Bool // the last sync went through the journal
	noted     atomic.Bool // a note to it may be kept

	// Under the mu of the notes.
	ending int   // so many are about to have the journal forget its writes
	note   *note // about it, to be written before the journal forgets its writes; nil: none

	live atomic.Uint32 // the halves of the journal that hold writes of it; changed under the journal's mu

	// Under the journal's mu.
	named  uint64 // the generation in which number is its name
	number uint64
}

// handle is an open file.
type handle struct {
	vfs.File
	fs     *FS
	file   *file
	closed sync.Once
}

// acquire returns the file of a name, with one handle more.
func (s *FS) acquire(name string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		f = &file{path: name}
		s.files[name] = f
	}
	f.opens++
	return f
}

// drop forgets a file that nobody needs any more.
func (s *FS) drop(f *file, handles int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.opens -= handles
	if f.opens == 0 && !s.journal.live(f) && s.files[f.path] == f {
		delete(s.files, f.path)
	}
}

// Create implements vfs.FS.
func (s *FS) Create(name string) (vfs.File, error) {
	if err := s.void(s.named(name)); err != nil {
		return nil, err
	}
	inner, err := s.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &handle{File: inner, fs: s, file: s.acquire(name)}, nil
}

// OpenReadWrite implements vfs.FS.
func (s *FS) OpenReadWrite(name string) (vfs.File, error) {
	inner, err := s.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return &handle{File: inner, fs: s, file: s.acquire(name)}, nil
}

// Rename implements vfs.FS. What has the old name, or lies below it, is settled first.
func (s *FS) Rename(oldName, newName string) error {
	moving, covered := s.named(oldName), s.named(newName)
	if info, err := s.Stat(oldName); err == nil && info.IsDir() {
		// Files that were below the new name may have been removed and be live still.
		moving, covered = s.below(oldName), s.below(newName)
	}
	for _, f := range moving {
		if err := s.journal.flush(f); err != nil {
			return err
		}
	}
	if err := s.void(append(moving, covered...)); err != nil {
		return err
	}
	return s.FS.Rename(oldName, newName)
}

// void has the journal forget files, since there will be none of their names, or others.
func (s *FS) void(all []*file) error {
	for _, f := range all {
		s.journal.notes.forget(f)
		f.gone.Store(true)
		if err := s.journal.land(f); err != nil { // who has the file open may read it yet
			return err
		}
		if err := s.journal.void(f); err != nil {
			return err
		}
		s.mu.Lock()
		if s.files[f.path] == f {
			delete(s.files, f.path)
		}
		s.mu.Unlock()
	}
	return nil
}

// named returns the file of a name, if it is known.
func (s *FS) named(name string) []*file {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil {
		return []*file{f}
	}
	return nil
}

// below returns the known files in a directory.
func (s *FS) below(name string) (all []*file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := name + string(filepath.Separator)
	for path, f := range s.files {
		if strings.HasPrefix(path, prefix) {
			all = append(all, f)
		}
	}
	return all
}

// WriteAt implements vfs.File.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	f := h.file
	if f.noted.Load() {
		h.fs.journal.notes.forget(f)
	}
	if err := h.fs.journal.land(f); err != nil {
		return 0, err
	}
	n, err := h.File.WriteAt(p, off)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepLocked(&h.fs.journal.buffers, p[:n], off)
	f.dirty = f.dirty.add(off, off+int64(n))
	return n, err
}

// WriteNote writes a note about another file of this FS: see vfs.WriteNote.
func (h *handle) WriteNote(about vfs.File, p []byte, off int64) error {
	if of, ok := about.(*handle); ok && of.fs == h.fs && h.fs.journal.notes.keep(h.file, of.file, p, off) {
		return nil
	}
	_, err := h.WriteAt(p, off)
	return err
}

// FillAt is WriteAt of bytes that need not be durable: see vfs.FillAt.
func (h *handle) FillAt(p []byte, off int64) (int, error) { return h.File.WriteAt(p, off) }

// Deferred reports whether syncs of the file go through the journal: see vfs.Deferred.
func (h *handle) Deferred() bool { return h.fs.journal.live(h.file) }

// Truncate implements vfs.File. The next sync is direct: the length is not in the journal.
func (h *handle) Truncate(size int64) error {
	f := h.file
	f.mu.Lock()
	f.resized = true
	f.mu.Unlock()
	if err := h.fs.journal.land(f); err != nil {
		return err
	}
	return h.File.Truncate(size)
}

// Sync implements vfs.File.
func (h *handle) Sync() error {
	_, kept, _ := h.file.synced()
	h.fs.journal.buffers.put(kept)
	if err := h.fs.journal.land(h.file); err != nil {
		return err
	}
	if err := h.File.Sync(); err != nil {
		return h.fs.journal.unsynced(h.file, err)
	}
	return h.fs.journal.void(h.file)
}

// Close implements vfs.File.
func (h *handle) Close() error {
	var err error
	if h.file.noted.Load() {
		err = h.fs.journal.notes.writeTo(h.file)
	}
	err = errors.Join(err, h.fs.journal.land(h.file))
	h.closed.Do(func() { h.fs.drop(h.file, 1) })
	return errors.Join(err, h.File.Close())
}

// keepLocked keeps bytes that were written, for a sync that will copy them into the
// journal: a log writes one run between syncs, and then it need not be read again. What
// is overwritten or does not follow, and what is large, is read.
func (f *file) keepLocked(buffers *buffers, p []byte, off int64) {
	switch {
	case len(p) == 0:
	case len(f.dirty) == 0:
		if f.journaled.Load() && len(p) <= maxKept {
			f.kept = buffers.get()
			*f.kept = append(*f.kept, p...)
		}
	case f.kept == nil:
	case off != f.dirty[0].to || len(*f.kept)+len(p) > maxKept:
		buffers.put(f.kept)
		f.kept = nil
	default:
		*f.kept = append(*f.kept, p...)
	}
}

// synced returns what was written since the last sync, and forgets it. ok says that
// nothing else needs to be synced.
func (f *file) synced() (dirty spans, kept *[]byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirty, kept, ok = f.dirty, f.kept, f.known && !f.resized
	f.dirty, f.kept, f.resized, f.known = nil, nil, false, true
	return dirty, kept, ok
}

// mostJournaled is how many bytes a sync covers at the most that goes through the journal.
func (s *FS) mostJournaled() int64 { return min(maxWrite, s.o.FileBytes/writeShare) }

// SyncData implements vfs.File: directly where the file is alone, else through the
// journal.
func (h *handle) SyncData() error {
	s, f := h.fs, h.file
	together := s.syncing.Add(1)
	defer s.syncing.Add(-1)
	dirty, kept, known := f.synced()
	defer s.journal.buffers.put(kept)
	journaled := known && len(dirty) > 0 && dirty.bytes() <= s.mostJournaled() && !f.gone.Load()
	live := s.journal.live(f)
	if journaled && (live || int(together) >= s.o.Together && !strings.HasSuffix(f.path, vfs.TempSuffix) && s.journal.ready()) {
		f.journaled.Store(true)
		return s.journal.write(f, h.File, dirty, kept)
	}
	f.journaled.Store(false)
	if err := s.journal.land(f); err != nil {
		return err
	}
	if err := h.File.SyncData(); err != nil {
		return s.journal.unsynced(f, err)
	}
	return s.journal.void(f)
}
