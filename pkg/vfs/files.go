package vfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// spareTries is how often a directory is opened again after the spare descriptor was closed for it.
// takeTries is how often a descriptor is tried to be freed while all are in use.
const (
	spareTries = 100
	sparePause = 10 * time.Millisecond
	takeTries  = 1000
	takePause  = time.Millisecond
)

// Shares of a process's descriptors. A sixteenth is reserved for descriptors that are not counted:
// at least leastReserved, but at most half of a small limit. A quarter is always available to files
// that are open for writing, even if other parts use many.
const (
	reservedShare     = 16
	leastReserved     = 128
	mostReservedShare = 2
	leastShare        = 4
)

// candidates is how many random open files are compared to find one that gives up its descriptor.
// Most files are written to in turn, and then the least recently used of all would be the worst
// choice.
const candidates = 8

// Files shares descriptors among the files that are open for writing. There may be more such files
// than descriptors: a busy partition has some, and there may be thousands of partitions. If no
// descriptor is left, a file that is not in use gives up its own and is opened again at its next
// use: see virtualFile, which works as PostgreSQL's virtual file descriptors do. Temporary files,
// which are closed soon, keep theirs and do not count.
//
// One descriptor is reserved for the sync of a directory, which must not fail for lack of one:
// otherwise what was written would be uncertain.
//
// Its methods are safe for concurrent use.
type Files struct {
	limit     int64 // all descriptors except the reserved ones
	least     int64
	events    FilesEvents
	elsewhere atomic.Int64 // descriptors that other parts reported
	given     atomic.Int64 // how many have been given up so far
	losses    losses

	mu      sync.Mutex     // guards what follows; it may be taken with a virtualFile's
	held    []*virtualFile // with a descriptor
	opening int            // descriptors of files that are being opened

	spareMu sync.Mutex // guards spare
	spare   *os.File   // nil: it could not be opened
}

// FilesEvents are called with a file's name. They must not wait, nor use files. nil: no call.
type FilesEvents struct {
	GaveUp  func(name string) // a file has given up its descriptor
	Refused func(name string) // a file got no descriptor: all are in use
}

// NewFiles returns a Files for a process that may have limit descriptors.
func NewFiles(limit int, events FilesEvents) *Files {
	kept := max(limit/reservedShare, min(leastReserved, limit/mostReservedShare))
	f := &Files{limit: int64(limit - kept), least: max(int64(limit/leastShare), 1), events: events}
	f.openSpareLocked()
	return f
}

// Elsewhere reports that the process uses n more descriptors for something else, such as
// connections, or fewer if n is negative. If necessary, files give up descriptors for them.
func (f *Files) Elsewhere(n int) {
	if f == nil || f.elsewhere.Add(int64(n)) < 0 || n <= 0 {
		return
	}
	for f.over() && f.giveUp() {
		continue
	}
}

// most returns how many descriptors files may hold now.
func (f *Files) most() int64 {
	return max(f.limit-f.elsewhere.Load(), f.least)
}

// over reports whether files hold more descriptors than they may.
func (f *Files) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.held)+f.opening) > f.most()
}

// counts reports whether a file with this name counts.
func (f *Files) counts(name string) bool { return f != nil && !strings.HasSuffix(name, TempSuffix) }

// acquire counts a descriptor that is about to be opened for a file. While each descriptor is in
// use by a system call, it waits, but not for long.
func (f *Files) acquire(name string) error {
	for waits := 0; ; {
		f.mu.Lock()
		if int64(len(f.held)+f.opening) < f.most() {
			f.opening++
			f.mu.Unlock()
			return nil
		}
		f.mu.Unlock()
		if !f.freeOrWait(&waits) {
			tell(f.events.Refused, name)
			return &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		}
	}
}

// freeOrWait makes a file give up its descriptor, or waits for a moment if all are in use. It returns
// false after too many waits.
func (f *Files) freeOrWait(waits *int) bool {
	if f.giveUp() {
		return true
	}
	*waits++
	time.Sleep(takePause)
	return *waits < takeTries
}

// hold records that a file has the descriptor that was counted for it; nil: it could not be opened.
func (f *Files) hold(l *virtualFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opening--
	if l != nil {
		l.at = len(f.held)
		f.held = append(f.held, l)
	}
}

// drop records that a file no longer has a descriptor.
func (f *Files) drop(l *virtualFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.held[len(f.held)-1]
	f.held[l.at], last.at = last, l.at
	f.held[len(f.held)-1] = nil
	f.held = f.held[:len(f.held)-1]
}

// giveUp makes a file give up its descriptor, and reports whether one did. A file that cannot be
// made durable fails, and giveUp tries another.
func (f *Files) giveUp() bool {
	for {
		l := f.choose()
		if l == nil {
			return false
		}
		gaveUp := l.giveUp()
		if gaveUp {
			f.drop(l)
			f.given.Add(1)
		}
		l.mu.Unlock()
		if gaveUp {
			tell(f.events.GaveUp, l.name)
			return true
		}
	}
}

func tell(event func(name string), name string) {
	if event != nil {
		event(name)
	}
}

// choose returns a file that may give up its descriptor, locked: the least recently used of some
// random ones. nil: all are in use.
func (f *Files) choose() (chosen *virtualFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.held)
	if n == 0 {
		return nil
	}
	for i := range candidates + n {
		at := i - candidates
		if i < candidates {
			at = rand.IntN(n)
		} else if chosen != nil {
			break // more are compared only while those were in use
		}
		l := f.held[at]
		if l == chosen || !l.mu.TryLock() {
			continue
		}
		if !l.mayGiveUp() || chosen != nil && chosen.used <= l.used {
			l.mu.Unlock()
			continue
		}
		if chosen != nil {
			chosen.mu.Unlock()
		}
		chosen = l
	}
	return chosen
}

func (f *Files) openSpareLocked() {
	if f.spare == nil {
		f.spare, _ = os.Open(os.DevNull) // without one a directory is opened as any file is
	}
}

// OutOfFiles reports whether an error means that the process or the machine has too many open
// files.
func OutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// LacksRoom reports whether an error means that there was no room for a write: on the disk, in a
// quota, in a file of the largest size, or for another descriptor.
func LacksRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) || OutOfFiles(err)
}

// retry calls open. If that fails for lack of a descriptor, it calls open again after a file has
// given up its own.
func (f *Files) retry(open func() error) error {
	err := open()
	for waits := 0; f != nil && OutOfFiles(err) && f.freeOrWait(&waits); {
		err = open()
	}
	return err
}

// retryWithSpare is like retry, but if no file can give up a descriptor, open gets the spare one.
func (f *Files) retryWithSpare(open func() error) error {
	err := open()
	for f != nil && OutOfFiles(err) && f.giveUp() {
		err = open()
	}
	if f == nil || !OutOfFiles(err) {
		return err
	}
	f.spareMu.Lock()
	defer f.spareMu.Unlock()
	defer f.openSpareLocked()
	for range spareTries {
		if f.spare != nil {
			_ = f.spare.Close()
			f.spare = nil
		}
		if err = open(); !OutOfFiles(err) {
			return err
		}
		f.openSpareLocked() // another goroutine took it meanwhile
		time.Sleep(sparePause)
	}
	return err
}
