package vfs

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// virtualFile is a file that is open for writing. It has a descriptor of a Files while it is used,
// and keeps it until another file needs it. Before it gives up the descriptor, it syncs what was
// written, so that the file's owner gets an error of the disk: a file that was closed may never
// report it. Other users of the file, and those who open it later, get the error as well: see losses.
//
// It is opened again by its name. If another file has that name by then, or none has, the
// virtualFile fails, so that nothing is written to another file. It also fails if it cannot be
// synced.
type virtualFile struct {
	name   string
	system OS // its Files counts the descriptor

	mu       sync.Mutex  // guards what follows
	file     *os.File    // nil: it has no descriptor
	info     fs.FileInfo // of the file when it gave up its descriptor; nil: it has not
	users    int
	wrote    uint64 // changes so far
	synced   uint64 // changes that are durable
	used     int64  // Files.given at its last use
	unsynced bool   // a sync failed: the owner handles that, and no other sync is tried
	failed   error  // why the file cannot be used any more
	at       int    // its index among those with a descriptor; guarded by the Files
}

// openVirtual opens a file with a descriptor of s.Files.
func (s OS) openVirtual(name string, flag int) (File, error) {
	l := &virtualFile{name: name, system: s}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(flag); err != nil {
		return nil, err
	}
	return l, nil
}

// open opens the file with a counted descriptor.
func (l *virtualFile) open(flag int) error {
	files := l.system.Files
	if err := files.acquire(l.name); err != nil {
		return err
	}
	file, err := l.system.openFile(l.name, flag)
	if err != nil {
		files.hold(nil)
		return err
	}
	l.file = file
	files.hold(l)
	return nil
}

// reopen opens the file again.
func (l *virtualFile) reopen() error {
	if err := l.open(os.O_RDWR); err != nil {
		if !OutOfFiles(err) {
			l.failed = err
		}
		return err
	}
	info, err := l.file.Stat()
	if err == nil && !os.SameFile(info, l.info) {
		err = &fs.PathError{Op: "open again", Path: l.name, Err: errReplaced}
	}
	if err != nil {
		l.system.Files.drop(l)
		_ = l.file.Close() // nothing was written to it
		l.file, l.failed = nil, err
	}
	return err
}

// errReplaced is the error of a file whose name another file has.
var errReplaced = errors.New("a file with this name exists")

// mayGiveUp reports whether the file can give up its descriptor now. The caller holds the lock.
func (l *virtualFile) mayGiveUp() bool { return l.users == 0 && l.failed == nil && !l.unsynced }

// giveUp syncs and closes the descriptor, and reports whether it did. The caller holds the lock.
func (l *virtualFile) giveUp() bool {
	if l.wrote > l.synced {
		l.failed = l.system.Files.losses.syncing(l.file, func() error {
			return named("fdatasync", l.file, l.system.Syncs.data(l.file))
		})
		if l.failed != nil {
			return false
		}
		l.synced = l.wrote
	}
	if l.info, l.failed = l.file.Stat(); l.failed != nil {
		return false
	}
	l.failed = l.file.Close()
	l.file = nil
	return true
}

// begin returns the open file and the number of changes so far. The caller ends its use.
func (l *virtualFile) begin() (*os.File, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return nil, 0, l.failed
	}
	if l.file == nil {
		if err := l.reopen(); err != nil {
			return nil, 0, err
		}
	}
	l.users++
	l.used = l.system.Files.given.Load()
	return l.file, l.wrote, nil
}

func (l *virtualFile) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
}

// change calls f, which may change the file.
func (l *virtualFile) change(f func(*os.File) error) error {
	file, _, err := l.begin()
	if err != nil {
		return err
	}
	err = f(file)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote++
	l.users--
	return err
}

// sync calls f, which makes earlier changes durable.
func (l *virtualFile) sync(f func(*os.File) error) error {
	file, wrote, err := l.begin()
	if err != nil {
		return err
	}
	err = f(file)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.synced = max(l.synced, wrote)
	}
	l.unsynced = l.unsynced || err != nil
	l.users--
	return err
}

// ReadAt implements File.
func (l *virtualFile) ReadAt(p []byte, off int64) (int, error) {
	file, _, err := l.begin()
	if err != nil {
		return 0, err
	}
	defer l.end()
	return file.ReadAt(p, off)
}

// WriteAt implements File.
func (l *virtualFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = l.change(func(file *os.File) error {
		n, err = file.WriteAt(p, off)
		return err
	})
	return n, err
}

// Size implements File.
func (l *virtualFile) Size() (int64, error) {
	file, _, err := l.begin()
	if err != nil {
		return 0, err
	}
	defer l.end()
	return sizeOf(file)
}

// Truncate implements File.
func (l *virtualFile) Truncate(size int64) error {
	return l.change(func(file *os.File) error { return file.Truncate(size) })
}

// Preallocate implements File.
func (l *virtualFile) Preallocate(off, n int64) error {
	return l.change(func(file *os.File) error { return preallocate(file, off, n) })
}

// DropCache drops a range from the system's cache, as far as it is on disk.
func (l *virtualFile) DropCache(off, n int64) {
	if file, _, err := l.begin(); err == nil {
		defer l.end()
		dropCache(file, off, n)
	}
}

// SyncData implements File: see OS.SyncData.
func (l *virtualFile) SyncData() error { return l.sync(l.system.syncData) }

// SyncAside is SyncData: see the function SyncAside.
func (l *virtualFile) SyncAside() error { return l.sync(l.system.syncAside) }

// Sync implements File.
func (l *virtualFile) Sync() error { return l.sync(l.system.syncWhole) }

// Close implements File.
func (l *virtualFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.failed, os.ErrClosed) {
		return l.failed
	}
	l.failed = &fs.PathError{Op: "use", Path: l.name, Err: os.ErrClosed}
	if l.file == nil {
		return nil
	}
	l.system.Files.drop(l)
	return l.file.Close()
}
