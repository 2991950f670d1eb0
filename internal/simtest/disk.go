package simtest

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// Mount is a machine's disk as one process sees it. The process can be cut off
// from it at once, at any of its changes: later changes have no effect. Its
// methods may be called by many goroutines.
type Mount struct {
	*hook.FS

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
func NewMount(m *vfs.Mem) *Mount { return newMount(m, false) }

// NewLyingMount returns a mount whose syncs report success and do nothing.
func NewLyingMount(m *vfs.Mem) *Mount { return newMount(m, true) }

func newMount(mem *vfs.Mem, lies bool) *Mount {
	m := &Mount{mem: mem, lies: lies}
	m.FS = hook.New(mem, m, false)
	return m
}

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

// Slow makes each sync of a log take the time that delay returns, in virtual time. Many
// goroutines call delay.
func (m *Mount) Slow(delay func() time.Duration) { m.slow.Store(&delay) }

// Hang lets no sync of a log or of the redo journal return for a time, and then lets all return:
// those in progress, and those that begin meanwhile.
func (m *Mount) Hang(d time.Duration) { m.hangs.Store(new(time.Now().Add(d))) }

// Begin implements hook.Hook: it makes way for one change.
func (m *Mount) Begin(op vfs.Op, f vfs.File) (int, error) {
	if op.Kind == vfs.OpOpen {
		m.gate.RLock()
		return 0, nil // it changes nothing
	}
	if op.Kind == vfs.OpSyncData {
		m.delaySync(op.Name)
	}
	n := m.changes.Add(1)
	if t := m.trap.Load(); t != nil && n > t.at && m.trap.CompareAndSwap(t, nil) {
		t.spring()
	}
	if err := m.broken.Load(); err != nil {
		return 0, *err
	}
	switch op.Kind {
	case vfs.OpSyncData, vfs.OpSync, vfs.OpSyncDir, vfs.OpSyncVolume:
		if m.lies {
			return 0, hook.ErrSkip
		}
	default:
	}
	m.gate.RLock()
	if m.full.Load() && grows(op, f) {
		m.gate.RUnlock()
		return 0, syscall.ENOSPC
	}
	return 0, nil
}

// delaySync waits for as long as a sync of a file takes.
func (m *Mount) delaySync(name string) {
	log := filepath.Ext(name) == ".log"
	if delay := m.slow.Load(); delay != nil && log {
		time.Sleep((*delay)())
	}
	journal := strings.HasPrefix(filepath.Base(name), "journal-")
	if until := m.hangs.Load(); until != nil && (log || journal) {
		time.Sleep(time.Until(*until))
	}
}

// End implements hook.Hook.
func (m *Mount) End(int) { m.gate.RUnlock() }

// grows reports whether a change needs room: a write within a file's size does not.
func grows(op vfs.Op, f vfs.File) bool {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpMkdir:
		return true
	case vfs.OpWrite, vfs.OpPreallocate:
		size, err := f.Size()
		return err != nil || op.Off+op.Len > size
	default:
		return false
	}
}
