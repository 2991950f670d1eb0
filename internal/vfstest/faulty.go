// Package vfstest injects faults into a file system for tests: operations that fail, write less
// than requested, or block. Only tests import it.
package vfstest

import (
	"io/fs"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/vfs"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
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
	*hook.FS
	count  atomic.Int64
	decide atomic.Pointer[func(index int64, op vfs.Op) Fault]
}

// NewFaulty returns a file system around inner that disturbs nothing yet.
func NewFaulty(inner vfs.FS) *Faulty {
	f := &Faulty{}
	f.FS = hook.New(inner, (*fault)(f), true)
	return f
}

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

// fault is the hook of a Faulty.
type fault Faulty

// Begin implements hook.Hook.
func (f *fault) Begin(op vfs.Op, _ vfs.File) (int, error) {
	index := f.count.Add(1) - 1
	decide := f.decide.Load()
	if decide == nil {
		return 0, nil
	}
	x := (*decide)(index, op)
	if x.Hang != nil {
		<-x.Hang
	}
	if x.Err == nil {
		return 0, nil
	}
	err := &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: x.Err}
	if op.Kind == vfs.OpWrite {
		return 0, &hook.PartialWrite{Bytes: x.Short, Err: err}
	}
	return 0, err
}

// End implements hook.Hook.
func (f *fault) End(int) {}
