// Package hook has file systems around others: FS calls a hook for each operation, which may let it pass,
// delay it, or make it fail; Watch knows the operations that have not returned yet. It knows no disk
// and starts no goroutine.
package hook

import (
	"errors"
	"io"
	"io/fs"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Hook sees the operations of an FS. Its methods are safe for concurrent use.
type Hook interface {
	// Begin is called before an operation, with the file if it is one of an open file. With an error
	// the operation is not carried out and fails with it, except for ErrSkip and PartialWrite.
	Begin(op vfs.Op, file vfs.File) (token int, err error)
	// End is called after an operation that Begin let pass, with the token that it returned.
	End(token int)
}

// ErrSkip makes an operation succeed without an effect.
var ErrSkip = errors.New("operation skipped")

// PartialWrite makes a write fail with Err after its first bytes.
type PartialWrite struct {
	Bytes int
	Err   error
}

// Error returns the text of Err.
func (e *PartialWrite) Error() string { return e.Err.Error() }

// FS is a file system around another one. A Hook is called for each change of it, for each
// open of a file for writing, and on request for each read. It allocates nothing for reads, writes
// and syncs.
type FS struct {
	vfs.FS
	hook  Hook
	reads bool
}

var _ vfs.FS = (*FS)(nil)

// New returns a file system around inner. If reads is true, the hook also sees operations
// that change nothing.
func New(inner vfs.FS, hook Hook, reads bool) *FS { return &FS{inner, hook, reads} }

// do carries out an operation if the hook lets it pass.
func (h *FS) do(op vfs.Op, file vfs.File, f func() error) error {
	token, err := h.hook.Begin(op, file)
	if errors.Is(err, ErrSkip) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.hook.End(token)
	return f()
}

// read is do for an operation that changes nothing.
func (h *FS) read(op vfs.Op, file vfs.File, f func() error) error {
	if !h.reads {
		return f()
	}
	return h.do(op, file, f)
}

func (h *FS) open(kind vfs.OpKind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := h.do(vfs.Op{Kind: kind, Name: name}, nil, func() (err error) {
		file, err = open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &hookedFile{file, h, name}, nil
}

// Create implements vfs.FS.
func (h *FS) Create(name string) (vfs.File, error) { return h.open(vfs.OpCreate, name, h.FS.Create) }

// Open implements vfs.FS.
func (h *FS) Open(name string) (vfs.File, error) {
	if !h.reads {
		return h.FS.Open(name)
	}
	return h.open(vfs.OpOpen, name, h.FS.Open)
}

// OpenReadWrite implements vfs.FS.
func (h *FS) OpenReadWrite(name string) (vfs.File, error) {
	return h.open(vfs.OpOpen, name, h.FS.OpenReadWrite)
}

// Remove implements vfs.FS.
func (h *FS) Remove(name string) error {
	return h.do(vfs.Op{Kind: vfs.OpRemove, Name: name}, nil, func() error { return h.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (h *FS) RemoveAll(name string) error {
	return h.do(vfs.Op{Kind: vfs.OpRemove, Name: name}, nil, func() error { return h.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (h *FS) Rename(oldName, newName string) error {
	return h.do(vfs.Op{Kind: vfs.OpRename, Name: newName}, nil, func() error { return h.FS.Rename(oldName, newName) })
}

// MkdirAll implements vfs.FS.
func (h *FS) MkdirAll(name string) error {
	return h.do(vfs.Op{Kind: vfs.OpMkdir, Name: name}, nil, func() error { return h.FS.MkdirAll(name) })
}

// ReadDir implements vfs.FS.
func (h *FS) ReadDir(name string) (names []string, err error) {
	err = h.read(vfs.Op{Kind: vfs.OpReadDir, Name: name}, nil, func() error { names, err = h.FS.ReadDir(name); return err })
	return names, err
}

// Stat implements vfs.FS.
func (h *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = h.read(vfs.Op{Kind: vfs.OpStat, Name: name}, nil, func() error { info, err = h.FS.Stat(name); return err })
	return info, err
}

// SyncDir implements vfs.FS.
func (h *FS) SyncDir(name string) error {
	return h.do(vfs.Op{Kind: vfs.OpSyncDir, Name: name}, nil, func() error { return h.FS.SyncDir(name) })
}

// Lock implements vfs.FS.
func (h *FS) Lock(name string) (lock io.Closer, err error) {
	err = h.read(vfs.Op{Kind: vfs.OpLock, Name: name}, nil, func() error { lock, err = h.FS.Lock(name); return err })
	return lock, err
}

// Usage implements vfs.FS.
func (h *FS) Usage(name string) (u vfs.Usage, err error) {
	err = h.read(vfs.Op{Kind: vfs.OpUsage, Name: name}, nil, func() error { u, err = h.FS.Usage(name); return err })
	return u, err
}

// OpenVolume implements vfs.OpenVolume.
func (h *FS) OpenVolume(name string) (vfs.Volume, error) {
	v, err := vfs.OpenVolume(h.FS, name)
	if err != nil {
		return nil, err
	}
	return &hookedVolume{v, h, name}, nil
}

type hookedVolume struct {
	vfs.Volume
	h    *FS
	name string
}

// Sync implements vfs.Volume.
func (v *hookedVolume) Sync() error {
	return v.h.do(vfs.Op{Kind: vfs.OpSyncVolume, Name: v.name}, nil, v.Volume.Sync)
}

type hookedFile struct {
	vfs.File
	h    *FS
	name string
}

func (f *hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.h.read(vfs.Op{Kind: vfs.OpRead, Name: f.name, Off: off, Len: int64(len(p))}, f.File, func() error { n, err = f.File.ReadAt(p, off); return err })
	return n, err
}

func (f *hookedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.h.do(vfs.Op{Kind: vfs.OpWrite, Name: f.name, Off: off, Len: int64(len(p))}, f.File, func() error { n, err = f.File.WriteAt(p, off); return err })
	if partial, ok := errors.AsType[*PartialWrite](err); ok {
		if n, err = f.File.WriteAt(p[:min(partial.Bytes, len(p))], off); err == nil {
			err = partial.Err
		}
	}
	return n, err
}

func (f *hookedFile) Truncate(size int64) error {
	return f.h.do(vfs.Op{Kind: vfs.OpTruncate, Name: f.name, Len: size}, f.File, func() error { return f.File.Truncate(size) })
}

func (f *hookedFile) Preallocate(off, n int64) error {
	return f.h.do(vfs.Op{Kind: vfs.OpPreallocate, Name: f.name, Off: off, Len: n}, f.File, func() error { return f.File.Preallocate(off, n) })
}

func (f *hookedFile) SyncData() error {
	return f.h.do(vfs.Op{Kind: vfs.OpSyncData, Name: f.name}, f.File, f.File.SyncData)
}

// SyncAside is SyncData: see vfs.SyncAside.
func (f *hookedFile) SyncAside() error {
	return f.h.do(vfs.Op{Kind: vfs.OpSyncData, Name: f.name}, f.File, func() error { return vfs.SyncAside(f.File) })
}

func (f *hookedFile) Sync() error {
	return f.h.do(vfs.Op{Kind: vfs.OpSync, Name: f.name}, f.File, f.File.Sync)
}
