package diskspace

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// leastTrial is the least number of bytes that a trial asks for.
const leastTrial = 1 << 20

// denials holds the last write that the system refused for lack of space. What a measurement shows may be out of
// reach: of a quota, or of a limit of the volume below the file system.
type denials struct {
	last    atomic.Pointer[error]     // nil: none, or a trial has succeeded since
	cleared atomic.Pointer[time.Time] // when a trial last succeeded; nil: never
	wakeup  chan struct{}
}

// leastBetween is the least time from a trial that succeeded to the next one: the system may refuse what a trial
// does not find, a write to another file system for example.
const leastBetween = time.Second

// Deny records that the system refused a write for lack of space. The next Look finds the disk low, unless a trial
// shows that there is room. It may be called concurrently and does not block.
func (s *Space) Deny(err error) {
	cleared := s.denials.cleared.Load()
	if cleared != nil && time.Since(*cleared) < leastBetween {
		return
	}
	if s.denials.last.Swap(&err) == nil { // else every Look makes a trial
		signal.Poke(s.denials.wakeup)
	}
}

// Denied returns a channel that receives a value after a call of Deny: it is time to Look.
func (s *Space) Denied() <-chan struct{} { return s.denials.wakeup }

// denied returns the last refusal of a write, or nil if there is none or a trial has shown that there is room.
func (s *Space) denied(free, reserve uint64) error {
	last := s.denials.last.Load()
	if last == nil {
		return nil
	}
	if n := max(reserve/Margin, leastTrial); free < reserve+n || s.try(clampSigned(n)) != nil || !s.denials.last.CompareAndSwap(last, nil) {
		return *last
	}
	s.denials.cleared.Store(new(time.Now()))
	return nil
}

// trialPath is the file with which space is tried.
func trialPath(dir string) string { return filepath.Join(dir, "space"+vfs.TempSuffix) }

// try writes a file and removes it.
func (s *Space) try(n int64) error {
	path := trialPath(s.dir)
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	err = f.Preallocate(0, n)
	if err == nil { // a file system without preallocation finds out later
		_, err = f.WriteAt(make([]byte, min(n, leastTrial)), 0)
	}
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close(), s.fs.Remove(path))
}

// Shortage describes for operators why publishes are refused, without local paths, and what to do; ""
// while they are accepted.
func (s *Space) Shortage() string {
	if !s.Low() {
		return ""
	}
	if last := s.denials.last.Load(); last != nil {
		var cause error = syscall.ENOSPC
		if errno, ok := errors.AsType[syscall.Errno](*last); ok {
			cause = errno
		}
		return fmt.Sprintf("system refuses writes (%v), %d bytes are free: publishes are refused", cause, s.State().Free)
	}
	if s.fewFiles.Load() {
		return "file system nearly out of inodes, however many bytes are free: publishes are refused until files are removed from it (df -i)"
	}
	return "disk nearly full: publishes are refused until space is freed"
}
