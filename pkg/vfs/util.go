package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/brokerd/brokerd/pkg/fate"
)

// What may be wrong with a file.
var (
	// ErrLocked says that another process or caller holds the lock.
	ErrLocked = fate.Refuse("locked by another process")
	// ErrTooLong says that a file has more bytes than are read of it.
	ErrTooLong = errors.New("file too large")
)

// MkdirAllSynced makes a directory and its parents, and makes each name that it
// added durable. A name that it could not make durable it takes away again.
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
		// A directory that is there counts as durable at the next attempt.
		return errors.Join(err, fsys.Remove(name))
	}
	return nil
}

// WriteFileSynced replaces a file as a whole: it writes a file with the suffix
// TempSuffix beside it, syncs that, renames it over name and syncs the
// directory. After a failure or a power cut the old content or the new is
// there, never a mixture; the temporary file may be left over.
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

// MarkSynced makes an empty file and syncs the directory. Its name is all that it says, and
// a file system that keeps a journal stores both in one step: the file itself needs no
// sync, and after a power cut it is there or not.
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

// ReadFile returns a file's content. One of more than limit bytes is an ErrTooLong.
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

// ReadFull fills p from position off of a file. A file that ends before is
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

// DropCache has the system forget what it caches of a range of a file, so that it is
// read from the disk next. What is not on the disk yet stays. It does nothing where
// there is no such cache.
func DropCache(f File, off, n int64) {
	if c, ok := f.(interface{ DropCache(off, n int64) }); ok {
		c.DropCache(off, n)
	}
}

// FillAt writes bytes ahead of what a file holds, which only prepare its blocks: they need
// not be durable.
func FillAt(f File, p []byte, off int64) (int, error) {
	if filler, ok := f.(interface {
		FillAt(p []byte, off int64) (int, error)
	}); ok {
		return filler.FillAt(p, off)
	}
	return f.WriteAt(p, off)
}

// SyncAll makes all that was written so far durable in the file system that holds name, by whomever:
// what files hold, and the names in directories. It is one call in place of thousands, and waits for
// what others have written there as well. Its error tells nothing of any one file: whoever gets one syncs
// file by file. It wraps errors.ErrUnsupported where there is no such call.
func SyncAll(fsys FS, name string) error {
	if s, ok := fsys.(interface{ SyncAll(name string) error }); ok {
		return s.SyncAll(name)
	}
	return errors.ErrUnsupported
}

// SameDisk reports whether two names are known to lie in one file system. Those that are not of the operating system are one.
func SameDisk(fsys FS, a, b string) bool {
	of, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	other, err := fsys.Stat(b)
	if err != nil {
		return false
	}
	x, known := of.Sys().(*syscall.Stat_t)
	y, also := other.Sys().(*syscall.Stat_t)
	return known == also && (!known || x.Dev == y.Dev)
}

// SyncAside is File.SyncData for a caller beside whom there is other work: it takes the
// place of no other goroutine while it waits for the disk, where the file can do that.
func SyncAside(f File) error {
	if a, ok := f.(interface{ SyncAside() error }); ok {
		return a.SyncAside()
	}
	return f.SyncData()
}

// WriteNote is f.WriteAt of a note about what is in another file. Where what that file was
// synced with is kept elsewhere as well (see Deferred), the note may be written later: as
// soon as that is not kept any more. Until then a crash of the process may lose the note, and
// loses nothing that it is about. A later note to f, or any other write, replaces it.
func WriteNote(f, about File, p []byte, off int64) error {
	if n, ok := f.(interface {
		WriteNote(about File, p []byte, off int64) error
	}); ok {
		return n.WriteNote(about, p, off)
	}
	_, err := f.WriteAt(p, off)
	return err
}

// WriteDeferred is f.WriteAt of bytes that the caller syncs before it tells anybody of them, in
// a range that was preallocated. Where SyncData makes them durable elsewhere (see Deferred), they
// may be written to the file later, in larger pieces; whoever reads the file through its file
// system finds them. Until they are synced a crash of the process may lose them.
func WriteDeferred(f File, p []byte, off int64) (int, error) {
	if d, ok := f.(interface {
		WriteDeferred(p []byte, off int64) (int, error)
	}); ok {
		return d.WriteDeferred(p, off)
	}
	return f.WriteAt(p, off)
}

// Deferred reports whether what SyncData makes durable is kept elsewhere at first, so that
// the blocks of the file itself do not matter to how long that takes.
func Deferred(f File) bool {
	d, ok := f.(interface{ Deferred() bool })
	return ok && d.Deferred()
}
