package raftstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// storage is what the consensus library writes to.
type storage interface {
	raft.LogStore
	raft.StableStore
}

// guard is a wrapper between the consensus library and its storage. It measures each write, so
// that a stalled one is noticed. When the disk is full it releases the reserve, step by step, and
// retries the write. It reports a write that failed, because the library panics after some of
// those.
//
// Only a write that failed before anything was synced is retried: the storage has rolled it back. A
// failed sync is never repeated.
type guard struct {
	storage
	reserve *reserve
	onFail  func(error)
	late    *lateness

	writes timing

	mu      sync.Mutex  // guards writing
	writing []time.Time // when each write in progress began, the oldest first
}

// begin records the beginning of a write.
func (g *guard) begin(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writing = append(g.writing, now)
}

// end records the end of a write: of any one that began at that time.
func (g *guard) end(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.writing, began)
	g.writing = slices.Delete(g.writing, i, i+1)
}

func (g *guard) write(what string, do func() error) error {
	start := time.Now()
	g.begin(start)
	defer func() {
		g.end(start)
		g.writes.add(time.Since(start))
		g.late.observe(time.Now(), time.Since(start))
	}()
	err := do()
	for err != nil && isFull(err) && g.reserve.release() {
		err = do()
	}
	if err != nil {
		err = fmt.Errorf("metadata: %s: %w", what, plain(err))
		g.onFail(err)
	}
	return err
}

// oldest returns when the oldest write in progress began: a vote may be stored beside a stalled
// batch of entries.
func (g *guard) oldest() (began time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.writing) == 0 {
		return time.Time{}, false
	}
	return g.writing[0], true
}

// stalled returns how long a write has been in progress; 0: none is.
func (g *guard) stalled(now time.Time) time.Duration {
	if began, ok := g.oldest(); ok {
		return max(0, now.Sub(began))
	}
	return 0
}

// StoreLog implements raft.LogStore.
func (g *guard) StoreLog(l *raft.Log) error {
	return g.write("store log", func() error { return g.storage.StoreLog(l) })
}

// StoreLogs implements raft.LogStore.
func (g *guard) StoreLogs(l []*raft.Log) error {
	return g.write("store log", func() error { return g.storage.StoreLogs(l) })
}

// DeleteRange implements raft.LogStore.
func (g *guard) DeleteRange(low, high uint64) error {
	return g.write("truncate log", func() error { return g.storage.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (g *guard) Set(key, value []byte) error {
	return g.write("store vote", func() error { return g.storage.Set(key, value) })
}

// SetUint64 implements raft.StableStore.
func (g *guard) SetUint64(key []byte, value uint64) error {
	return g.write("store term", func() error { return g.storage.SetUint64(key, value) })
}

// isFull reports whether a write failed for lack of space, before it was synced. The storage
// reports a file that cannot grow only as text.
func isFull(err error) bool {
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error())
	return full && !strings.Contains(err.Error(), "sync")
}

// plain makes errors.Is find ENOSPC in an error that reports it only as text.
func plain(err error) error {
	if err == nil || !isFull(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fullError{err}
}

// fullError is an error for lack of space.
type fullError struct{ error }

func (e fullError) Unwrap() []error { return []error{e.error, syscall.ENOSPC} }
