package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// reserveRetry is how long after a failure the reserve is made again at the
// earliest.
const reserveRetry = time.Second

// reserve is a file that holds disk space back. While it is not whole, commands
// are refused, and what space it let go is for the agreement itself.
type reserve struct {
	path string
	size int64 // 0: no reserve

	mu    sync.Mutex // guards the fields below
	low   bool       // the file is not whole
	tried time.Time  // when it was last made
}

// newReserve makes the file, or finds it. A disk with no space for it is low
// from the start.
func newReserve(path string, size int64) (*reserve, error) {
	r := &reserve{path: path, size: max(0, size)}
	if r.size == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return r, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() == r.size {
		return r, nil
	}
	if err := r.fill(); err != nil {
		if !isFull(err) {
			return nil, err
		}
		r.low = true
	}
	return r, nil
}

// fill writes the file. A partial one is removed.
func (r *reserve) fill() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("metadata disk reserve: %w", err)
	}
	err = errors.Join(allocate(f, r.size), f.Close())
	if err != nil {
		return fmt.Errorf("metadata disk reserve: %w", errors.Join(err, os.Remove(r.path)))
	}
	return nil
}

// release lets the space go, and says whether there was any.
func (r *reserve) release() bool {
	if r == nil || r.size == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.low {
		return false
	}
	r.low = true
	return os.Remove(r.path) == nil
}

// isLow reports whether the reserve is not whole.
func (r *reserve) isLow() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.low
}

// restore makes the reserve again if it is not whole, at most every
// reserveRetry, and says whether it is whole now.
func (r *reserve) restore(now time.Time) bool {
	if r == nil {
		return true
	}
	if !r.claim(now) {
		return !r.isLow()
	}
	err := r.fill()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.low = err != nil
	return err == nil
}

// claim reports whether the caller is the one to make the reserve again.
func (r *reserve) claim(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.low || now.Sub(r.tried) < reserveRetry {
		return false
	}
	r.tried = now
	return true
}

// TendReserve makes the reserve of disk space again, if it was released, and says
// whether it is whole. A node that leads and has no reserve refuses every command;
// one that follows would not otherwise make it again. It writes to the disk.
func (m Members) TendReserve() bool { return m.s.guard.reserve.restore(time.Now()) }

// YieldLead hands the lead of the metadata to another voter, whether or not there is
// space for commands here. It does nothing where this node does not lead, or is the
// only voter. Where it returns an error, this node may lead on.
func (m Members) YieldLead(ctx context.Context) error {
	if m.s.raft.State() != raft.Leader || len(m.Configuration().Voters()) < 2 {
		return nil
	}
	if err := m.s.flights.request(ctx, m.s.raft.LeadershipTransfer); err != nil {
		return fmt.Errorf("transfer metadata leadership: %w", err)
	}
	return nil
}
