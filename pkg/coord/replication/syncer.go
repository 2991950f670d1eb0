package replication

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Syncer syncs what one writer appends as often as a policy demands. A timer
// runs only while messages wait for their interval. It is safe for concurrent
// use.
type Syncer struct {
	w      *commitlog.Writer
	failed func(error)

	running sync.WaitGroup // a background sync, or the timer of one

	mu       sync.Mutex // guards what follows
	policy   meta.SyncPolicy
	unsynced int // messages appended since the last sync
	timer    *time.Timer
	stopped  bool
	owes     bool // what was written before the policy changed may need a sync at once
}

// NewSyncer returns the syncer of a writer. failed receives errors of background syncs, on a
// goroutine that Stop waits for.
func NewSyncer(w *commitlog.Writer, p meta.SyncPolicy, failed func(error)) *Syncer {
	w.SyncsEach(p.Every == 1)
	return &Syncer{w: w, policy: p, failed: failed}
}

// Appended counts appended messages and reports whether they must be synced before they are
// acknowledged. Otherwise they are synced within the interval.
func (s *Syncer) Appended(n int) (due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced += n
	if s.owes {
		s.owes = false
		return true
	}
	if s.policy.Every > 0 && s.unsynced >= s.policy.Every {
		return true
	}
	if s.timer == nil && !s.stopped && s.policy.Interval > 0 {
		s.afterLocked(s.policy.Interval)
	}
	return false
}

// Sync makes what was appended durable.
func (s *Syncer) Sync() error {
	s.mu.Lock()
	s.unsynced = 0
	s.mu.Unlock()
	_, err := s.w.Sync()
	return err
}

// Begin begins a sync for a member of a round: see commitlog.Writer.BeginSync. If it returns
// false, nothing has begun and the caller must call Sync.
func (s *Syncer) Begin() (commitlog.Syncing, bool) {
	begun, ok := s.w.BeginSync()
	if ok {
		s.mu.Lock()
		s.unsynced = 0
		s.mu.Unlock()
	}
	return begun, ok
}

// SetPolicy changes the policy. Messages that the new policy would have synced
// already are synced in the background.
func (s *Syncer) SetPolicy(p meta.SyncPolicy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == s.policy {
		return
	}
	s.owes = s.owes || s.policy.Every == 1
	s.policy = p
	s.w.SyncsEach(p.Every == 1)
	if s.unsynced == 0 || s.stopped {
		return
	}
	if s.timer != nil {
		if !s.timer.Stop() {
			return // it is about to sync
		}
		s.running.Done()
		s.timer = nil
	}
	switch {
	case p.Every > 0 && s.unsynced >= p.Every:
		s.afterLocked(0)
	case p.Interval > 0:
		s.afterLocked(p.Interval)
	}
}

// Stop ends syncing in the background. It does not wait: see Wait.
func (s *Syncer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil && s.timer.Stop() {
		s.running.Done()
	}
	s.timer = nil
}

// Wait returns once no sync runs in the background. Call Stop first.
func (s *Syncer) Wait() { s.running.Wait() }

// afterLocked starts the timer, which must not be running. The syncer must not
// be stopped.
func (s *Syncer) afterLocked(d time.Duration) {
	s.running.Add(1)
	s.timer = time.AfterFunc(d, func() {
		defer s.running.Done()
		s.mu.Lock()
		s.timer = nil
		s.mu.Unlock()
		if err := s.Sync(); err != nil {
			s.failed(err)
		}
	})
}
