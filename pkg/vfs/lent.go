//go:build linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// lentFile is a file that is open for writing and has a descriptor of a Files while it is
// used, and otherwise until another file needs it. What was written is made durable
// before it is given up, so that an error of the disk meets the file's owner: a file that
// was closed may never tell of it. Whoever else has the file, or opens it, is told as well: see
// losses.
//
// It is opened again by its name. If another file has that name by then, or none, the file
// fails, as it does when it cannot be made durable: nothing is written to what is not it.
type lentFile struct {
	name   string
	system OS // whose Files lends

	mu       sync.Mutex  // guards what follows
	file     *os.File    // nil: it has no descriptor
	info     fs.FileInfo // of the file when it gave up its descriptor; nil: it has not
	users    int
	wrote    uint64 // changes so far,
	synced   uint64 // and those that are durable
	used     int64  // Files.given when it was used last
	unsynced bool   // a sync failed: what that means is for its owner, and no other is tried
	failed   error  // why it cannot be used any more
	at       int    // where it is among those with a descriptor; guarded by the Files
}

// openLent opens a file that gets a descriptor of s.Files.
func (s OS) openLent(name string, flag int) (File, error) {
	l := &lentFile{name: name, system: s}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(flag); err != nil {
		return nil, err
	}
	return l, nil
}

// open gets the file a descriptor.
func (l *lentFile) open(flag int) error {
	files := l.system.Files
	if err := files.acquire(l.name); err != nil {
		return err
	}
	file, err := l.system.openFile(l.name, flag)
	if err != nil {
		files.have(nil)
		return err
	}
	l.file = file
	files.have(l)
	return nil
}

// reopen gets the file a descriptor again.
func (l *lentFile) reopen() error {
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
		l.system.Files.lose(l)
		_ = l.file.Close() // nothing was written to it
		l.file, l.failed = nil, err
	}
	return err
}

// errReplaced is why a file fails whose name another one has.
var errReplaced = errors.New("a file with this name exists")

// mayRest reports whether the file can do without its descriptor now. The caller holds the
// lock.
func (l *lentFile) mayRest() bool { return l.users == 0 && l.failed == nil && !l.unsynced }

// rest syncs and closes the descriptor, and says whether that is given up. The caller
// holds the lock.
func (l *lentFile) rest() bool {
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

// begin returns the open file, and how many changes were made to it so far. The caller
// ends its use.
func (l *lentFile) begin() (*os.File, uint64, error) {
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

func (l *lentFile) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
}

// change calls f, which may change the file.
func (l *lentFile) change(f func(*os.File) error) error {
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

// sync calls f, which makes what was changed before durable.
func (l *lentFile) sync(f func(*os.File) error) error {
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
func (l *lentFile) ReadAt(p []byte, off int64) (int, error) {
	file, _, err := l.begin()
	if err != nil {
		return 0, err
	}
	defer l.end()
	return file.ReadAt(p, off)
}

// WriteAt implements File.
func (l *lentFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = l.change(func(file *os.File) error {
		n, err = file.WriteAt(p, off)
		return err
	})
	return n, err
}

// Size implements File.
func (l *lentFile) Size() (int64, error) {
	file, _, err := l.begin()
	if err != nil {
		return 0, err
	}
	defer l.end()
	return sizeOf(file)
}

// Truncate implements File.
func (l *lentFile) Truncate(size int64) error {
	return l.change(func(file *os.File) error { return file.Truncate(size) })
}

// Preallocate implements File.
func (l *lentFile) Preallocate(off, n int64) error {
	return l.change(func(file *os.File) error { return preallocate(file, off, n) })
}

// DropCache has the system forget what it caches of a range, as far as that is on
// disk.
func (l *lentFile) DropCache(off, n int64) {
	if file, _, err := l.begin(); err == nil {
		defer l.end()
		dropCache(file, off, n)
	}
}

// SyncData implements File: see OS.SyncData.
func (l *lentFile) SyncData() error { return l.sync(l.system.syncData) }

// SyncAside is SyncData: see the function SyncAside.
func (l *lentFile) SyncAside() error { return l.sync(l.system.syncAside) }

// Sync implements File.
func (l *lentFile) Sync() error { return l.sync(l.system.syncWhole) }

// Close implements File.
func (l *lentFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.failed, os.ErrClosed) {
		return l.failed
	}
	l.failed = &fs.PathError{Op: "use", Path: l.name, Err: os.ErrClosed}
	if l.file == nil {
		return nil
	}
	l.system.Files.lose(l)
	return l.file.Close()
}
