package raftstore

import (
	"sync"

	"github.com/hashicorp/raft"
)

// breakdown ends a store that cannot continue, once.
type breakdown struct {
	mu       sync.Mutex         // guards the fields below
	shutdown func() raft.Future // tells the library to stop; always the same future
	err      error              // why the store failed
	failed   chan struct{}      // closed when err is set
}

// fail ends the store: what it was about to do cannot be done, and the
// library's own way out of some of that is a panic. The first cause stays.
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

// arm lets fail stop the library, and does so if it was called before.
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

// Err returns why the store failed; nil: it did not.
func (f *breakdown) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
