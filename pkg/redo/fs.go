package redo

import (
	"cmp"
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
	defaultPause     = 500 * time.Millisecond
)

// Limits for a sync that goes through the journal. A larger sync costs more to write twice than to
// sync. A small journal takes no sync that fills much of it.
const (
	maxWrite   = 128 << 10
	writeShare = 8
)

// maxKept is how many written bytes of a file are kept in memory until they are synced.
const maxKept = vfs.MaxBegun

// Options describe an FS. The zero value of a number means its default.
type Options struct {
	Root      string        // the directory that contains the files
	Dir       string        // the directory of the journal's files
	FileBytes int64         // of each of the two journal files
	Together  int           // the journal is used when so many syncs happen at the same time
	Age       time.Duration // how long a write may stay in the journal only
	Pause     time.Duration // before Open tries again to write to a file that it could not write to
	// VolumeFrom is the number of files from which on they are synced with one call for their volume
	// (vfs.Volume) when a file of the journal is settled. 0: they are always synced one by one, as
	// they must be if they are not all in the volume of Root.
	VolumeFrom int
	// SyncAll makes Open sync the volume of Root, instead of each file that it writes again: see
	// Report.OnDisk.
	SyncAll bool

	// Damaged is called by Open before it settles anything, if the journal has damaged records: any
	// file may lack its last synced writes. If it returns an error, Open fails with that.
	Damaged func() error
	// Unwritable is called by Open, before it settles anything, for each file that lacks its last synced writes
	// because its disk or file system is damaged there, also at further tries. Calls may be concurrent, and repeated. If it returns an
	// error, or is nil, Open fails. Otherwise Open keeps the journal's files under other names.
	Unwritable func(path string, err error) error
	// Compare chooses the files that Open compares with what it and earlier calls have kept: see
	// Report.Lacks. nil: none, and what was kept stays.
	Compare func(path string) bool
	// Failed is called once, without waiting, when the journal has failed; nil: no call.
	Failed func(error)
}

func (o Options) withDefaults() Options {
	o.FileBytes = cmp.Or(o.FileBytes, defaultFileBytes)
	o.Together = cmp.Or(o.Together, defaultTogether)
	o.Age = cmp.Or(o.Age, DefaultAge)
	o.Pause = cmp.Or(o.Pause, defaultPause)
	return o
}

// FS is a file system with a journal. Its methods are safe for concurrent use. While it is open, no
// other code may write to files below its root.
type FS struct {
	vfs.FS
	o       Options
	syncing atomic.Int32 // running calls of SyncData, and syncs that have begun
	journal *journal
	rounds  rounds
	lacks   []Lack // Report.Lacks of Open

	mu    sync.Mutex       // guards files and what it says of their fields
	files map[string]*file // files that are open for writing, or live
}

var _ vfs.FS = (*FS)(nil)

// file is a file with a name. All its handles share it.
type file struct {
	path  string
	opens int         // handles; guarded by FS.mu
	gone  atomic.Bool // another file has its name, or none has: it is synced directly

	mu      sync.Mutex  // guards the fields below
	dirty   spans       // written since the last sync
	kept    *[]byte     // the bytes of dirty, if they are known and one run; nil: they have to be read
	resized bool        // the length was set since the last sync
	known   bool        // everything that is not synced is in dirty
	late    late        // written by a caller, but not to the file yet
	isLate  atomic.Bool // late is not empty

	journaled atomic.Bool // the last sync went through the journal
	noted     atomic.Bool // a note to it may be kept

	// Guarded by the mu of the notes.
	ending int   // how many callers are about to make the journal forget its writes
	note   *note // a note about it, to be written before the journal forgets its writes; nil: none

	live atomic.Uint32 // the halves of the journal that hold writes of it; changed under the journal's mu

	// Guarded by the journal's mu.
	named   uint64 // the generation in which it was last named
	namedIn uint64 // the record before that
	number  uint64 // stands for it
}

// handle is an open file.
type handle struct{ opened }

// acquire returns the file with a name, and counts one more handle.
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

// drop forgets a file that is not needed any more.
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
	return &handle{opened{File: inner, fs: s, file: s.acquire(name)}}, nil
}

// OpenReadWrite implements vfs.FS.
func (s *FS) OpenReadWrite(name string) (vfs.File, error) {
	inner, err := s.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return &handle{opened{File: inner, fs: s, file: s.acquire(name)}}, nil
}

// Rename implements vfs.FS. It first settles the files at or below the old name.
func (s *FS) Rename(oldName, newName string) error {
	moving, covered := s.named(oldName), s.named(newName)
	if info, err := s.Stat(oldName); err == nil && info.IsDir() {
		// Files that were below the new name may have been removed and still be live.
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

// void makes the journal forget files whose names are about to be removed or replaced.
func (s *FS) void(all []*file) error {
	for _, f := range all {
		s.journal.notes.forget(f)
		f.gone.Store(true)
		if err := s.journal.land(f); err != nil { // a caller that has the file open may still read it
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

// named returns the file with a name, if it is known.
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

// keepLocked keeps written bytes for a sync, which will copy them into the journal. A log writes
// one run between syncs, so the bytes need not be read again. Bytes that overwrite others, do not
// follow the last ones, or are many have to be read.
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

// synced returns what was written since the last sync, and forgets it. ok means that nothing else
// has to be synced.
func (f *file) synced() (dirty spans, kept *[]byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirty, kept, ok = f.dirty, f.kept, f.known && !f.resized
	f.dirty, f.kept, f.resized, f.known = nil, nil, false, true
	return dirty, kept, ok
}

// mostJournaled is the size of the largest sync that goes through the journal.
func (s *FS) mostJournaled() int64 { return min(maxWrite, s.o.FileBytes/writeShare) }

// SyncData implements vfs.File. It syncs the file directly if no other file is synced, else through
// the journal.
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
