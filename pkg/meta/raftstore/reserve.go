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
	// reserveRetry is how long after a failure the reserve is made again at the
	// earliest.
	reserveRetry = time.Second
	// reservePart is the part of a disk that the reserve takes at most, half of what is kept
	// free of messages, and reserveLeast what it takes of the smallest disk.
	reservePart  = 40
	reserveLeast = 512 << 10
	// reserveSteps is in how many steps the reserve is spent, and stepLeast how much one is.
	reserveSteps = 256
	stepLeast    = 16 << 10
	// floorSteps of the room are left to terms and votes.
	floorSteps = 4
	// writtenPerByte is how many bytes a command of one may take on disk, at most.
	writtenPerByte = 4
)

// reserve is a file that holds disk space back. A write that finds no space takes it from there,
// step by step. While the file is not whole, commands that grow the metadata are refused, and
// what room there is, in the file and on the disk, is for those by which space is freed.
type reserve struct {
	path string
	size int64                 // 0: no reserve
	free func() (int64, error) // of the disk, in bytes
	log  *slog.Logger

	left  atomic.Int64 // that the file holds
	blind atomic.Bool  // a write found no space where free knows of some: a quota, for example

	mu    sync.Mutex // held while the file changes; guards what follows
	tried time.Time  // when it was last made
	told  bool       // that it is not whole
}

// newReserve makes the file, or finds it, as large as size and the disk permit. A disk with too
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

// find takes over the file that there is, and makes it whole.
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

// grow makes the file whole, or as large as leaves half of the free space to others: what frees
// space writes a little, too. mu is held.
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

// tell logs that the reserve is not whole, or is again, once. mu is held.
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

// step is how much of the reserve is let go at once.
func (r *reserve) step() int64 { return max(stepLeast, r.size/reserveSteps) }

// release lets one step of the space go, and says whether there was any.
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

// isLow reports whether the reserve is not whole.
func (r *reserve) isLow() bool { return r != nil && r.left.Load() < r.size }

// restore creates the reserve again if it is incomplete, at most every reserveRetry, and reports
// whether it is complete now.
func (r *reserve) restore(now time.Time) bool {
	if !r.isLow() {
		return true
	}
	if !r.mu.TryLock() { // it changes just now
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

// takes reports whether the store can write a command of so many bytes though the reserve is not
// whole, and go on after it.
func (r *reserve) takes(bytes int) bool {
	room := r.left.Load()
	if free, err := r.free(); err == nil && !r.blind.Load() {
		room += free
	}
	return room >= min(floorSteps*r.step(), r.size/4)+int64(bytes)*writtenPerByte
}

// state says what is left, for people; "" where the reserve is whole.
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
