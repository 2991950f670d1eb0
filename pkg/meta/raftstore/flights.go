package raftstore

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// drainTimeout bounds how long Close waits for what is being agreed on: long
// enough for a leader that lost its majority to find that out.
const drainTimeout = time.Second

// flights are the requests that the library is working on. When it is stopped it
// forgets those that still wait in its queues, and whoever waits for them would
// do so for ever; so it is stopped only after they have landed.
type flights struct {
	failed <-chan struct{} // closed when the library was stopped because the store failed
	over   chan struct{}   // closed when Close has stopped it

	mu       sync.Mutex    // guards the fields below
	count    int           // in progress
	closed   bool          // none begins
	finished chan struct{} // closed when closed and none is in progress
}

// begin reports whether a request may be made.
func (f *flights) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	f.finishLocked()
}

func (f *flights) finishLocked() {
	if f.closed && f.count == 0 {
		close(f.finished)
	}
}

// close lets no request begin, and waits for those in progress for up to d.
func (f *flights) close(d time.Duration) {
	f.mu.Lock()
	f.closed, f.finished = true, make(chan struct{})
	f.finishLocked()
	f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-f.finished:
	case <-timer.C:
	}
}

// request makes a request of the library and waits for it, or for the caller to
// give up. The library has no future that can be given up, so a goroutine stays
// behind until it is decided; where the library was stopped first, that is never.
func (f *flights) request(ctx context.Context, start func() raft.Future) error {
	if !f.begin() {
		return errClosed
	}
	future := start()
	done := make(chan error, 1)
	go func() {
		defer f.end()
		done <- future.Error()
	}()
	select {
	case err := <-done:
		return proposeError(err)
	case <-ctx.Done():
		return givenUp(ctx)
	case <-f.failed:
	case <-f.over:
	}
	select {
	case err := <-done:
		return proposeError(err)
	default:
		return errUnknownOutcome
	}
}
