package raftstore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// storage is what the consensus library writes to.
type storage interface {
	raft.LogStore
	raft.StableStore
}

// guard stands between the consensus library and its storage. It measures each
// write, so that one that hangs is seen; it lets the reserve go when the disk is
// full and tries that write again; and it reports a write that failed, since
// the library's own answer to some of those is to panic.
//
// Only a write that failed before anything was synced is tried again: the
// storage has rolled it back. A failed sync is never repeated.
type guard struct {
	storage
	reserve *reserve
	onFail  func(error)

	writing atomic.Int64 // when the write that is under way began, unix ns; 0: none
	writes  timing
}

func (g *guard) write(what string, do func() error) error {
	start := time.Now()
	g.writing.Store(start.UnixNano())
	defer func() {
		g.writing.Store(0)
		g.writes.add(time.Since(start))
	}()
	err := do()
	if err != nil && isFull(err) && g.reserve.release() {
		err = do()
	}
	if err != nil {
		err = fmt.Errorf("metadata: %s: %w", what, err)
		g.onFail(err)
	}
	return err
}

// stalled returns for how long a write has been under way.
func (g *guard) stalled(now time.Time) time.Duration {
	if start := g.writing.Load(); start != 0 {
		return max(0, now.Sub(time.Unix(0, start)))
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
	return g.write("cut log", func() error { return g.storage.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (g *guard) Set(key, value []byte) error {
	return g.write("store vote", func() error { return g.storage.Set(key, value) })
}

// SetUint64 implements raft.StableStore.
func (g *guard) SetUint64(key []byte, value uint64) error {
	return g.write("store term", func() error { return g.storage.SetUint64(key, value) })
}

// isFull says whether a write failed for want of space, and before it was
// synced. The storage reports a file that cannot grow as text alone.
func isFull(err error) bool {
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error())
	return full && !strings.Contains(err.Error(), "sync")
}
