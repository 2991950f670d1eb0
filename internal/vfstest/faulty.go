// Package vfstest injects faults into a file system for tests: operations that fail, write less
// than requested, or block. Only tests import it.
package vfstest

import (
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Fault is what Faulty does to an operation. The zero value lets it pass.
type Fault struct {
	// Err fails the operation before it does anything.
	Err error
	// Short applies to a write that Err fails: that many of its bytes are
	// written first.
	Short int
	// Hang, if not nil, holds the operation until the channel is closed.
	Hang <-chan struct{}
}

// Faulty is a file system that disturbs another one. Which operations, a
// function decides: it is asked before each, with the operation's number from 0.
// It is safe for concurrent use.
type Faulty struct {
	inner  vfs.FS
	count  atomic.Int64
	decide atomic.Pointer[func(index int64, op vfs.Op) Fault]
}

var _ vfs.FS = (*Faulty)(nil)

// NewFaulty returns a file system around inner that disturbs nothing yet.
func NewFaulty(inner vfs.FS) *Faulty { return &Faulty{inner: inner} }

// Decide sets who decides from now on; nil lets everything pass.
func (f *Faulty) Decide(decide func(index int64, op vfs.Op) Fault) {
	if decide == nil {
		f.decide.Store(nil)
		return
	}
	f.decide.Store(&decide)
}

// Count returns the number of operations so far.
func (f *Faulty) Count() int64 { return f.count.Load() }

func (f *Faulty) ask(op vfs.Op) Fault {
	index := f.count.Add(1) - 1
	decide := f.decide.Load()
	if decide == nil {
		return Fault{}
	}
	fault := (*decide)(index, op)
	if fault.Hang != nil {
		<-fault.Hang
	}
	return fault
}

func (f *Faulty) fail(kind vfs.OpKind, name string) error {
	fault := f.ask(vfs.Op{Kind: kind, Name: name})
	if fault.Err == nil {
		return nil
	}
	return &fs.PathError{Op: string(kind), Path: name, Err: fault.Err}
}

func (f *Faulty) open(kind vfs.OpKind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := f.fail(kind, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f, name: name}, nil
}

// Create implements FS.
func (f *Faulty) Create(name string) (vfs.File, error) {
	return f.open(vfs.OpCreate, name, f.inner.Create)
}

// Open implements FS.
func (f *Faulty) Open(name string) (vfs.File, error) { return f.open(vfs.OpOpen, name, f.inner.Open) }

// OpenReadWrite implements FS.
func (f *Faulty) OpenReadWrite(name string) (vfs.File, error) {
	return f.open(vfs.OpOpen, name, f.inner.OpenReadWrite)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.fail(vfs.OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements FS.
func (f *Faulty) RemoveAll(name string) error {
	if err := f.fail(vfs.OpRemove, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// Rename implements FS.
func (f *Faulty) Rename(oldName, newName string) error {
	if err := f.fail(vfs.OpRename, newName); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(name string) error {
	if err := f.fail(vfs.OpMkdir, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name)
}

// ReadDir implements FS.
func (f *Faulty) ReadDir(name string) ([]string, error) {
	if err := f.fail(vfs.OpReadDir, name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail(vfs.OpStat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(name string) error {
	if err := f.fail(vfs.OpSyncDir, name); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

// OpenVolume implements vfs.OpenVolume.
func (f *Faulty) OpenVolume(name string) (vfs.Volume, error) {
	return vfs.WrapVolume(f.inner, name, func(sync func() error) error {
		if err := f.fail(vfs.OpSyncVolume, name); err != nil {
			return err
		}
		return sync()
	})
}

// Lock implements FS.
func (f *Faulty) Lock(name string) (io.Closer, error) {
	if err := f.fail(vfs.OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Usage implements FS.
func (f *Faulty) Usage(name string) (vfs.Usage, error) {
	if err := f.fail(vfs.OpUsage, name); err != nil {
		return vfs.Usage{}, err
	}
	return f.inner.Usage(name)
}

type faultyFile struct {
	vfs.File
	fs   *Faulty
	name string
}

func (f *faultyFile) fail(op vfs.Op) (Fault, error) {
	op.Name = f.name
	fault := f.fs.ask(op)
	if fault.Err == nil {
		return fault, nil
	}
	return fault, &fs.PathError{Op: string(op.Kind), Path: f.name, Err: fault.Err}
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.fail(vfs.Op{Kind: vfs.OpRead, Off: off, Len: int64(len(p))}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	fault, err := f.fail(vfs.Op{Kind: vfs.OpWrite, Off: off, Len: int64(len(p))})
	if err == nil {
		return f.File.WriteAt(p, off)
	}
	n, werr := f.File.WriteAt(p[:min(fault.Short, len(p))], off)
	if werr != nil {
		return n, werr
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fail(vfs.Op{Kind: vfs.OpTruncate, Len: size}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Preallocate(off, n int64) error {
	if _, err := f.fail(vfs.Op{Kind: vfs.OpPreallocate, Off: off, Len: n}); err != nil {
		return err
	}
	return f.File.Preallocate(off, n)
}

func (f *faultyFile) SyncData() error {
	if _, err := f.fail(vfs.Op{Kind: vfs.OpSyncData}); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *faultyFile) Sync() error {
	if _, err := f.fail(vfs.Op{Kind: vfs.OpSync}); err != nil {
		return err
	}
	return f.File.Sync()
}
