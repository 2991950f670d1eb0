package raftstore

import (
	"sync"

	"github.com/hashicorp/raft"
)

// breakdown stops a store that cannot continue, once.
type breakdown struct {
	mu       sync.Mutex         // guards the fields below
	shutdown func() raft.Future // stops the library; always returns the same future
	err      error              // why the store failed
	failed   chan struct{}      // closed when err is set
}

// fail stops the store, because it cannot complete an operation, for which the library might panic.
// The first cause is kept.
func (f *breakdown) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	f.err = err
	close(f.failed)
	if f.shutdown != nil {
		f.shutdown() // returns at once; Close waits
	}
}

// arm enables fail to stop the library, and stops it if fail was called before.
func (f *breakdown) arm(shutdown func() raft.Future) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shutdown = shutdown
	if f.err != nil {
		f.shutdown()
	}
}

// Failed is closed when the store has failed: a write to its disk failed, or it met an unknown
// command. Err returns the cause. The node should transfer its leaderships and stop.
func (f *breakdown) Failed() <-chan struct{} { return f.failed }

// Err returns why the store failed; nil if it did not.
func (f *breakdown) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
