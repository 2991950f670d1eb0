package nodes

import (
	"context"
	"os"
	"sync"
	"time"
)

// probeInterval is how often the disk is tried.
const probeInterval = 50 * time.Millisecond

// Stalls detects stalls of the machine: it writes and syncs a small file periodically and records
// the longest time between two successes. A broker on the same disk cannot be faster.
type Stalls struct {
	mu      sync.Mutex // guards what follows
	last    time.Time  // success
	longest time.Duration
}

// Watch probes the disk of path until ctx ends.
func (s *Stalls) Watch(ctx context.Context, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s.Take()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := f.WriteAt([]byte("probe"), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		s.succeed(time.Now())
	}
}

func (s *Stalls) succeed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, now.Sub(s.last))
	s.last = now
}

// Take returns by how much the longest time between two successes, including the current one,
// exceeded the expected time, and resets it.
func (s *Stalls) Take() time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	stall := max(s.longest, now.Sub(s.last))
	if s.last.IsZero() {
		stall = 0
	}
	s.last, s.longest = now, 0
	return max(stall-probeInterval, 0)
}
