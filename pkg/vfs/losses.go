package vfs

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// losses are the files whose writes may never reach the disk: their sync failed when they gave up their
// descriptor. The kernel reports a failed write once, so a later sync by another handle would succeed.
// losses makes that sync fail too, for callers that rely on it, such as the redo journal before it
// forgets a file. A file is identified by its inode, and forgotten when a file with that inode is
// created. The methods are safe for concurrent use.
type losses struct {
	some atomic.Int32 // files in of
	mu   sync.Mutex   // guards of, and the users of its entries
	of   map[inode]*loss
}

type inode struct{ device, number uint64 }

// loss is the outcome for one file.
type loss struct {
	users int
	mu    sync.Mutex // held while the file is synced to give up its descriptor; guards err
	err   error
}

func inodeOf(f *os.File) (inode, error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return inode{}, named("fstat", f, err)
	}
	return inode{uint64(st.Dev), st.Ino}, nil //nolint:gosec,unconvert // an int32 on some systems
}

// use calls f with the entry of a file. The entry is kept while it is used or has an error.
func (l *losses) use(id inode, f func(x *loss)) {
	l.mu.Lock()
	x := l.of[id]
	if x == nil {
		x = &loss{}
		if l.of == nil {
			l.of = map[inode]*loss{}
		}
		l.of[id] = x
		l.some.Add(1)
	}
	x.users++
	l.mu.Unlock()
	x.mu.Lock()
	f(x)
	lost := x.err != nil
	x.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.users--; x.users == 0 && !lost {
		delete(l.of, id)
		l.some.Add(-1)
	}
}

// syncing calls sync for a file that is about to give up its descriptor, and records its error.
func (l *losses) syncing(f *os.File, sync func() error) error {
	id, err := inodeOf(f)
	if err != nil {
		return err
	}
	l.use(id, func(x *loss) {
		if err = sync(); err != nil && x.err == nil {
			x.err = err
		}
	})
	return err
}

// lost returns why a file may have lost written data; nil if it has not. It waits for a sync of
// the same file in progress.
func (f *Files) lost(file *os.File) error {
	if f == nil || f.losses.some.Load() == 0 {
		return nil
	}
	id, err := inodeOf(file)
	if err == nil {
		f.losses.use(id, func(x *loss) { err = x.err })
	}
	if err != nil {
		return fmt.Errorf("an earlier sync of %s failed, and the data on disk is unknown: %w", file.Name(), err)
	}
	return nil
}

// renewed removes the entry of a file that is now empty.
func (f *Files) renewed(file *os.File) {
	if f == nil || f.losses.some.Load() == 0 {
		return
	}
	if id, err := inodeOf(file); err == nil {
		f.losses.use(id, func(x *loss) { x.err = nil })
	}
}
