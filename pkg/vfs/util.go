package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Errors of files.
var (
	// ErrLocked says that another process or caller holds the lock.
	ErrLocked = fate.Refuse("locked by another process")
	// ErrTooLong says that a file is larger than the reader's limit.
	ErrTooLong = errors.New("file too large")
)

// MkdirAllSynced creates a directory and its parents, and makes each name that it added durable. It
// removes a name again that it could not make durable.
func MkdirAllSynced(fsys FS, name string) error {
	name = filepath.Clean(name)
	_, err := fsys.Stat(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(name)
	if parent != name {
		if err := MkdirAllSynced(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(name); err != nil {
		return err
	}
	if err := fsys.SyncDir(parent); err != nil {
		// The next attempt would take an existing directory for durable.
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}

// WriteFileSynced replaces a whole file: it writes a file with the suffix TempSuffix beside it,
// syncs that file, renames it over name and syncs the directory. After a failure or a power cut the
// file has the old content or the new, never a mixture. The temporary file may remain.
func WriteFileSynced(fsys FS, name string, content []byte) error {
	temp := name + TempSuffix
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.SyncData()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(fsys.Remove(temp)))
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// MarkSynced creates an empty file and syncs the directory. Only the name of the file has a
// meaning. A file system with a journal stores both in one step: the file itself needs no sync,
// and after a power cut it exists or does not.
func MarkSynced(fsys FS, name string) error {
	f, err := fsys.Create(name)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// ReadFile returns a file's content. If the file has more than limit bytes, the error is
// ErrTooLong.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrTooLong}
	}
	content := make([]byte, size)
	if err := ReadFull(f, content, 0); err != nil {
		return nil, err
	}
	return content, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadFull fills p from position off of a file. If the file ends before, the error is
// io.ErrUnexpectedEOF.
func ReadFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

const (
	fileMode = 0o640
	dirMode  = 0o750
)

// DropCache drops a range of a file from the system's cache, so that the next read comes from the
// disk. Data that is not on disk yet stays. Without such a cache it does nothing.
func DropCache(f File, off, n int64) {
	if c, ok := f.(interface{ DropCache(off, n int64) }); ok {
		c.DropCache(off, n)
	}
}

// FillAt writes bytes behind a file's content only to prepare its blocks: they need not be durable.
func FillAt(f File, p []byte, off int64) (int, error) {
	if filler, ok := f.(interface {
		FillAt(p []byte, off int64) (int, error)
	}); ok {
		return filler.FillAt(p, off)
	}
	return f.WriteAt(p, off)
}

// SyncAside is File.SyncData for a caller whose sync is not urgent: while it waits for the disk, it
// keeps no other goroutine from running, if the file supports that.
func SyncAside(f File) error {
	if a, ok := f.(interface{ SyncAside() error }); ok {
		return a.SyncAside()
	}
	return f.SyncData()
}

// WriteNote is f.WriteAt for a note about the content of another file. If the synced data of that
// file is also kept elsewhere (see Deferred), the note may be written later: when that data is
// about to be dropped. Until then a crash of the process may lose the note, but not the data that
// it is about. A later note to f, or any other write, replaces it.
func WriteNote(f, about File, p []byte, off int64) error {
	if n, ok := f.(interface {
		WriteNote(about File, p []byte, off int64) error
	}); ok {
		return n.WriteNote(about, p, off)
	}
	_, err := f.WriteAt(p, off)
	return err
}

// WriteDeferred is f.WriteAt for bytes in a preallocated range that the caller syncs before it
// announces them. If SyncData makes them durable elsewhere (see Deferred), they may be written to
// the file later, in larger pieces. Readers of the file through its file system see them. Until
// they are synced, a crash of the process may lose them.
func WriteDeferred(f File, p []byte, off int64) (int, error) {
	if d, ok := f.(interface {
		WriteDeferred(p []byte, off int64) (int, error)
	}); ok {
		return d.WriteDeferred(p, off)
	}
	return f.WriteAt(p, off)
}

// Deferred reports whether SyncData first makes data durable elsewhere, so that the blocks of the
// file itself do not affect how long that takes.
func Deferred(f File) bool {
	d, ok := f.(interface{ Deferred() bool })
	return ok && d.Deferred()
}
