package simtest

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Mount is a machine's disk as one process sees it. The process can be cut off
// from it at once, at any of its changes: later changes have no effect. Its
// methods may be called by many goroutines.
type Mount struct {
	vfs.FS // the reading half; changes go through the methods below

	mem  *vfs.Mem
	lies bool
	gate sync.RWMutex // held for reading over each change, so that Cut is one moment

	changes atomic.Int64
	trap    atomic.Pointer[trap]
	broken  atomic.Pointer[error]
	slow    atomic.Pointer[func() time.Duration]
	hangs   atomic.Pointer[time.Time] // until then syncs do not return; nil: they do
	full    atomic.Bool
}

type trap struct {
	at     int64
	spring func()
}

// NewMount returns a mount of a crashable disk.
func NewMount(m *vfs.Mem) *Mount { return &Mount{FS: m, mem: m} }

// NewLyingMount returns a mount whose syncs report success and do nothing.
func NewLyingMount(m *vfs.Mem) *Mount { return &Mount{FS: m, mem: m, lies: true} }

// Cut returns the disk after the process, or by c the machine, ends at this
// moment.
func (m *Mount) Cut(c vfs.Crash) *vfs.Mem {
	m.gate.Lock()
	defer m.gate.Unlock()
	return m.mem.CrashClone(c)
}

// Trap calls spring once, before the change after the next n ones, on the
// goroutine of that change. spring must not wait for that goroutine. Trap
// replaces the previous trap.
func (m *Mount) Trap(n int, spring func()) {
	m.trap.Store(&trap{m.changes.Load() + int64(n), spring})
}

// Break fails all changes from now on with err.
func (m *Mount) Break(err error) { m.broken.Store(&err) }

// Fill makes the disk full, or no longer full. On a full disk no file is created and
// none grows. Reserved space of files can be written.
func (m *Mount) Fill(full bool) { m.full.Store(full) }

// grow makes a change that needs room.
func (m *Mount) grow(f func() error) error {
	return m.change(func() error {
		if m.full.Load() {
			return syscall.ENOSPC
		}
		return f()
	})
}

// Slow makes each sync of a log take the time that delay returns, in virtual time. Many
// goroutines call delay.
func (m *Mount) Slow(delay func() time.Duration) { m.slow.Store(&delay) }

// Hang lets no sync of a log or of the redo journal return for a time, and then lets all return:
// those in progress, and those that begin meanwhile.
func (m *Mount) Hang(d time.Duration) { m.hangs.Store(new(time.Now().Add(d))) }

// change makes one change.
func (m *Mount) change(f func() error) error {
	n := m.changes.Add(1)
	if t := m.trap.Load(); t != nil && n > t.at && m.trap.CompareAndSwap(t, nil) {
		t.spring()
	}
	if err := m.broken.Load(); err != nil {
		return *err
	}
	m.gate.RLock()
	defer m.gate.RUnlock()
	return f()
}

// sync makes a change that a lying mount only reports as made.
func (m *Mount) sync(f func() error) error {
	if m.lies {
		return m.change(func() error { return nil })
	}
	return m.change(f)
}

// Create implements vfs.FS.
func (m *Mount) Create(name string) (f vfs.File, err error) {
	err = m.grow(func() error {
		f, err = m.FS.Create(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &mountedFile{f, m, isLog(name), isLog(name) || isJournal(name)}, nil
}

// OpenReadWrite implements vfs.FS.
func (m *Mount) OpenReadWrite(name string) (vfs.File, error) {
	f, err := m.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return &mountedFile{f, m, isLog(name), isLog(name) || isJournal(name)}, nil
}

func isLog(name string) bool { return filepath.Ext(name) == ".log" }

func isJournal(name string) bool { return strings.HasPrefix(filepath.Base(name), "journal-") }

// Remove implements vfs.FS.
func (m *Mount) Remove(name string) error {
	return m.change(func() error { return m.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (m *Mount) RemoveAll(name string) error {
	return m.change(func() error { return m.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (m *Mount) Rename(oldName, newName string) error {
	return m.change(func() error { return m.FS.Rename(oldName, newName) })
}

// MkdirAll implements vfs.FS.
func (m *Mount) MkdirAll(name string) error {
	return m.grow(func() error { return m.FS.MkdirAll(name) })
}

// SyncDir implements vfs.FS.
func (m *Mount) SyncDir(name string) error {
	return m.sync(func() error { return m.FS.SyncDir(name) })
}

// OpenVolume implements vfs.OpenVolume.
func (m *Mount) OpenVolume(name string) (vfs.Volume, error) {
	return vfs.WrapVolume(m.FS, name, m.sync)
}

// mountedFile is a file that may be written.
type mountedFile struct {
	vfs.File
	m     *Mount
	log   bool
	hangs bool // its syncs may hang
}

// within makes a change up to a position in the file. It needs no room if the file
// has that size already.
func (f *mountedFile) within(end int64, change func() error) error {
	if size, err := f.Size(); err == nil && end <= size {
		return f.m.change(change)
	}
	return f.m.grow(change)
}

func (f *mountedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.within(off+int64(len(p)), func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *mountedFile) Truncate(size int64) error {
	return f.m.change(func() error { return f.File.Truncate(size) })
}

func (f *mountedFile) Preallocate(off, n int64) error {
	return f.within(off+n, func() error { return f.File.Preallocate(off, n) })
}

func (f *mountedFile) SyncData() error {
	if delay := f.m.slow.Load(); delay != nil && f.log {
		time.Sleep((*delay)())
	}
	if until := f.m.hangs.Load(); until != nil && f.hangs {
		time.Sleep(time.Until(*until))
	}
	return f.m.sync(f.File.SyncData)
}

func (f *mountedFile) Sync() error { return f.m.sync(f.File.Sync) }
