//go:build linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How often, and with which pause, a directory is opened anew where the process has no
// descriptor left, though one was kept for that.
const (
	spareTries = 100
	sparePause = 10 * time.Millisecond
)

// Files bounds how many files are open for writing, so that thousands of them leave
// descriptors for connections, and keeps one descriptor back for what must not fail for
// the lack of one: the sync of a directory, behind which what was written would be
// uncertain. Temporary files, which are closed soon, do not count. Its methods may be
// called by many goroutines.
type Files struct {
	most    int64
	refused func(name string)
	open    atomic.Int64

	mu    sync.Mutex // guards spare
	spare *os.File   // nil: it could not be opened
}

// NewFiles returns a Files that lets most files be open. refused, if not nil, is called
// when one is refused; it must not wait.
func NewFiles(most int, refused func(name string)) *Files {
	f := &Files{most: int64(most), refused: refused}
	f.keepLocked()
	return f
}

func (f *Files) keepLocked() {
	if f.spare == nil {
		f.spare, _ = os.Open(os.DevNull) // without one a directory is opened as any file is
	}
}

// counts tells whether a file of a name counts.
func (f *Files) counts(name string) bool { return f != nil && !strings.HasSuffix(name, TempSuffix) }

// take counts a file that is about to be opened.
func (f *Files) take(name string) error {
	if f.open.Add(1) <= f.most {
		return nil
	}
	f.open.Add(-1)
	if f.refused != nil {
		f.refused(name)
	}
	return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
}

func (f *Files) give() { f.open.Add(-1) }

// OutOfFiles tells whether an error says that the process, or the machine, has too many
// files open.
func OutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// do calls f, and where that fails for the lack of a descriptor, again with the spare
// one.
func (f *Files) do(use func() error) error {
	err := use()
	if f == nil || !OutOfFiles(err) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.keepLocked()
	for range spareTries {
		if f.spare != nil {
			_ = f.spare.Close()
			f.spare = nil
		}
		if err = use(); !OutOfFiles(err) {
			return err
		}
		f.keepLocked() // another took it meanwhile
		time.Sleep(sparePause)
	}
	return err
}
