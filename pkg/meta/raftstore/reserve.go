package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// reserveRetry is the shortest time between two attempts to restore the
	// reserve.
	reserveRetry = time.Second
	// reservePart is the maximum fraction, as a divisor, of a disk that the reserve uses,
	// which is half of what is kept free of messages. reserveLeast is its minimum size.
	reservePart  = 40
	reserveLeast = 512 << 10
	// reserveSteps is the number of steps in which the reserve is released, and stepLeast
	// the minimum size of a step.
	reserveSteps = 256
	stepLeast    = 16 << 10
	// floorSteps is the number of steps that are kept for terms and votes.
	floorSteps = 4
	// writtenPerByte is the maximum number of bytes on disk per byte of a command.
	writtenPerByte = 4
)

// reserve is a file that reserves disk space. A write that finds no space takes it from there,
// step by step. While the file is incomplete, commands that grow the metadata are refused, and
// the remaining space, in the file and on the disk, is for commands that free space.
type reserve struct {
	path string
	size int64                 // 0: no reserve
	free func() (int64, error) // of the disk, in bytes
	log  *slog.Logger

	left  atomic.Int64 // bytes in the file
	blind atomic.Bool  // a write found no space although free reports some, for example because of a quota

	mu    sync.Mutex // held while the file changes; guards what follows
	tried time.Time  // when it was last restored
	told  bool       // that it is incomplete was logged
}

// newReserve creates or opens the file, as large as size and the disk permit. A disk with too
// little space for it is low from the start.
func newReserve(path string, size int64, log *slog.Logger) (*reserve, error) {
	dir := filepath.Dir(path)
	r := &reserve{path: path, size: max(0, size), log: log, free: func() (int64, error) {
		u, err := (vfs.OS{}).Usage(dir)
		return int64(min(u.Free, 1<<62)), err
	}}
	if r.size == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return r, err
	}
	if u, err := (vfs.OS{}).Usage(dir); err == nil {
		r.size = min(r.size, max(reserveLeast, int64(u.Total/reservePart)/stepLeast*stepLeast))
	}
	return r, r.find()
}

// find opens an existing file, and completes it.
func (r *reserve) find() error {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("metadata disk reserve: %w", err)
	case info.Size() > r.size:
		if err := os.Truncate(r.path, r.size); err != nil {
			return fmt.Errorf("metadata disk reserve: %w", err)
		}
		r.left.Store(r.size)
	default:
		r.left.Store(info.Size())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.grow()
	r.tell()
	if err != nil && !isFull(err) {
		return err
	}
	return nil
}

// grow completes the file, or grows it by at most half of the free space, because commands that
// free space also write a little. mu is held.
func (r *reserve) grow() error {
	left := r.left.Load()
	missing := r.size - left
	free, err := r.free()
	if err == nil && free/2 < missing {
		missing = free / 2 / r.step() * r.step()
	}
	if missing <= 0 {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("metadata disk reserve: %w", err)
	}
	if err = allocate(f, left, missing); err != nil {
		err = errors.Join(err, f.Truncate(left))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("metadata disk reserve: %w", err)
	}
	if left += missing; left == r.size {
		r.blind.Store(false)
	}
	r.left.Store(left)
	return nil
}

// tell logs, once, that the reserve is incomplete, or that it is complete
// again. mu is held.
func (r *reserve) tell() {
	low := r.isLow()
	if r.told == low {
		return
	}
	if r.told = low; !low {
		r.log.Info("metadata disk reserve restored; all metadata commands are accepted", "path", r.path, "reserve_bytes", r.size)
		return
	}
	free, _ := r.free()
	r.log.Error("metadata disk full: only commands that free space, record nodes or elect leaders are accepted until space is freed on this disk",
		"path", r.path, "reserve_bytes", r.size, "reserve_left_bytes", r.left.Load(), "free_bytes", free)
}

// step is how much of the reserve is released at once.
func (r *reserve) step() int64 { return max(stepLeast, r.size/reserveSteps) }

// release releases one step of the space, and reports whether there was any.
func (r *reserve) release() bool {
	if r == nil || r.size == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.left.Load()
	if left == 0 {
		return false
	}
	if free, err := r.free(); err == nil && free > 2*r.step() {
		r.blind.Store(true)
	}
	next := max(0, left-r.step())
	if err := os.Truncate(r.path, next); err != nil {
		next = 0
		if err := os.Remove(r.path); err != nil {
			return false
		}
	}
	r.left.Store(next)
	r.tried = time.Now()
	r.tell()
	return true
}

// isLow reports whether the reserve is incomplete.
func (r *reserve) isLow() bool { return r != nil && r.left.Load() < r.size }

// restore creates the reserve again if it is incomplete, at most every reserveRetry, and reports
// whether it is complete now.
func (r *reserve) restore(now time.Time) bool {
	if !r.isLow() {
		return true
	}
	if !r.mu.TryLock() { // it is being changed
		return false
	}
	defer r.mu.Unlock()
	if now.Sub(r.tried) >= reserveRetry {
		r.tried = now
		if err := r.grow(); err != nil && !isFull(err) {
			r.log.Debug("cannot recreate the metadata disk reserve; retrying", "error", err)
		}
		r.tell()
	}
	return !r.isLow()
}

// takes reports whether the store can write a command of n bytes although the reserve is
// incomplete, and continue afterwards.
func (r *reserve) takes(bytes int) bool {
	room := r.left.Load()
	if free, err := r.free(); err == nil && !r.blind.Load() {
		room += free
	}
	return room >= min(floorSteps*r.step(), r.size/4)+int64(bytes)*writtenPerByte
}

// state describes the remaining reserve; "" if the reserve is complete.
func (r *reserve) state() string {
	if !r.isLow() {
		return ""
	}
	free, err := r.free()
	text := "unknown"
	if err == nil {
		text = words.Size(free)
	}
	return fmt.Sprintf("%s free on the disk of %s, %s of the reserve of %s left", text, filepath.Dir(r.path), words.Size(r.left.Load()), words.Size(r.size))
}
