package raftstore

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
)

// drainTimeout bounds how long Close waits for requests in progress: long enough for a leader that
// lost its majority to notice that.
const drainTimeout = time.Second

// flights are the requests in progress in the library. When the library is stopped it forgets
// requests in its queues, and their callers would wait forever, so it is stopped only after they
// have ended.
type flights struct {
	failed <-chan struct{} // closed when the library was stopped because the store failed
	over   chan struct{}   // closed when Close has stopped the library

	mu       sync.Mutex    // guards the fields below
	count    int           // requests in progress
	closed   bool          // refuses new requests
	finished chan struct{} // closed when closed is set and none is in progress
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

// close refuses new requests, and waits up to d for those in progress.
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

// request makes a request of the library and waits for it, or until the caller gives up. The
// library's futures cannot be abandoned, so a goroutine stays until the request is decided. If the
// library is stopped first, that is never.
func (f *flights) request(ctx context.Context, start func() raft.Future) error {
	if !f.begin() {
		return failure.MetadataClosed
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
		return failure.CommandUnknown
	}
}
