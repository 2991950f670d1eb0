package vfs

import (
	"os"
	"sync"
	"sync/atomic"
)

// maxRequests limits the syncs that are passed to the kernel at the same time.
const maxRequests = 64

// Syncs limits how many of the runtime's places for goroutines (GOMAXPROCS) are taken by syncs. A
// goroutine in a system call keeps its place until the runtime's monitor takes it away, up to 10 ms
// later. While all places are in syncs, nothing else runs, although the processors are idle.
// Therefore a sync that would take one place too many is passed to the kernel as a request, and its
// goroutine waits for the completion as others wait for the network. SyncAside always does so. The
// first syncs block in a system call: for a sync on which everything waits this is faster, as it
// saves the request and the wake-up.
// If the kernel takes no such requests, or has enough of them, syncs block as they do without a
// Syncs. The methods are safe for concurrent use. A nil Syncs passes no sync to the kernel.
type Syncs struct {
	most     int32        // syncs that may block at the same time
	blocking atomic.Int32 // how many block now
	shared   rounds       // of directories, by path

	mu      sync.Mutex // guards what follows
	idle    []*syncRequest
	made    int
	refused bool // the kernel accepts no requests
}

// NewSyncs returns a Syncs for a runtime with places places. Syncs may take half of them.
func NewSyncs(places int) *Syncs {
	return &Syncs{most: int32(min(places/2, 1<<10))} //nolint:gosec // bounded
}

// syncKind is what a sync makes durable.
type syncKind struct {
	opcode uint16                 // of the asynchronous request
	block  func(f *os.File) error // the same by a system call
}

var (
	dataSync = syncKind{aioDataSync, fdatasync}
	// nameSync is for directories: a new name in a directory may not count as its data.
	nameSync = syncKind{aioSync, (*os.File).Sync}
)

// data makes a file's data durable.
func (s *Syncs) data(f *os.File) error { return s.sync(f, dataSync) }

// names makes the names in a directory durable with sync. Callers at the same time share one sync:
// if many topics are created together, all are created in one directory.
func (s *Syncs) names(dir string, sync func() error) error {
	if s == nil {
		return sync()
	}
	return s.shared.share(dir, sync)
}

// sync blocks, or uses a request if too many syncs block.
func (s *Syncs) sync(f *os.File, kind syncKind) error {
	if s == nil {
		return kind.block(f)
	}
	if s.blocking.Add(1) <= s.most {
		defer s.blocking.Add(-1)
		return kind.block(f)
	}
	s.blocking.Add(-1)
	return s.aside(f, kind)
}

// aside syncs with a request, or blocks if there is none.
func (s *Syncs) aside(f *os.File, kind syncKind) error {
	if s == nil {
		return kind.block(f)
	}
	r := s.get()
	if r == nil {
		return kind.block(f)
	}
	taken, err := r.submit(f, kind.opcode)
	if !taken {
		s.put(r, err == nil)
		if err != nil {
			return err
		}
		return kind.block(f)
	}
	if err := r.await(); err != nil {
		return err // r cannot be reused: the kernel may still complete it
	}
	err = r.outcome()
	s.put(r, false)
	return err
}

// get returns an unused request, or nil.
func (s *Syncs) get() *syncRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r
	}
	if s.refused || s.made == maxRequests {
		return nil
	}
	r, err := newSyncRequest()
	if err != nil {
		s.refused = true
		return nil
	}
	s.made++
	return r
}

// put returns a request. refused: the kernel did not accept it, and accepts no others.
func (s *Syncs) put(r *syncRequest, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, r)
	if refused {
		s.refused, s.idle = true, nil
	}
}
