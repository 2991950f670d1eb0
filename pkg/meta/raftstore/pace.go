package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// latenessWindow is how long a late moment counts, at least; at most twice that.
	latenessWindow = 15 * time.Second
	// maxStretch is by how much timeouts grow at most.
	maxStretch = 8
	// tolerated is the part of a timeout by which a process may be late without
	// waiting for longer.
	tolerated = 5
)

// lateness is how late this process was recently: how long after their time its
// timers fired, and how long its writes took. A process that has no processor or no
// disk for so long takes as long to hear of others that are well, and to be heard of:
// it must not take them for dead. One late moment counts for nothing: a process that
// was stopped and continues is not slow.
type lateness struct {
	mu          sync.Mutex       // guards the fields below
	began       time.Time        // of the window
	now, before [2]time.Duration // the two worst of the window, and of the one before
}

// observe takes observe of a moment that was late, or of a write.
func (l *lateness) observe(at time.Time, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnLocked(at)
	l.now = worst(l.now, late)
}

// turnLocked begins the next window when its time has come.
func (l *lateness) turnLocked(at time.Time) {
	switch passed := at.Sub(l.began); {
	case passed >= 2*latenessWindow:
		l.began, l.now, l.before = at, [2]time.Duration{}, [2]time.Duration{}
	case passed >= latenessWindow:
		l.began, l.now, l.before = at, [2]time.Duration{}, l.now
	}
}

func worst(all [2]time.Duration, d time.Duration) [2]time.Duration {
	switch {
	case d > all[0]:
		return [2]time.Duration{d, all[0]}
	case d > all[1]:
		return [2]time.Duration{all[0], d}
	}
	return all
}

// usual returns the second worst lateness of the last windows.
func (l *lateness) usual(at time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnLocked(at)
	return worst(worst(l.now, l.before[0]), l.before[1])[1]
}

// stretch returns by how much a timeout is to grow where the process is so late: by
// none up to a fifth of it, then twice for each twice as late, up to maxStretch.
func stretch(timeout, late time.Duration) int {
	factor := 1
	for limit := timeout / tolerated; late > limit && factor < maxStretch; limit *= 2 {
		factor *= 2
	}
	return factor
}

// pace sets how long this node waits for others. A leader leaves the heartbeats to
// contacts: the library's own come at random times, one after another, and each
// wakes this process and others. By the timeout that a leader has, it sends one of
// its own only where contacts are held up, as by a disk that is slow, and in time
// even then. Others wait for as long as befits how late this process runs itself.
func (s contacts) pace() {
	if !s.of.opts.distributed() {
		return
	}
	was := s.of.raft.ReloadableConfig()
	c := was
	c.HeartbeatTimeout, c.ElectionTimeout = s.of.opts.HeartbeatTimeout, s.of.opts.ElectionTimeout
	if s.of.raft.State() == raft.Leader {
		c.HeartbeatTimeout *= leaderPatience
		c.ElectionTimeout = max(c.ElectionTimeout, c.HeartbeatTimeout)
	} else {
		factor := time.Duration(stretch(s.of.opts.HeartbeatTimeout, s.of.late.usual(time.Now())))
		c.HeartbeatTimeout *= factor
		c.ElectionTimeout *= factor
	}
	if c == was {
		return
	}
	if err := s.of.raft.ReloadConfig(c); err != nil {
		s.of.opts.Logger.Warn("cannot adjust metadata timeouts; the old ones stay in use", "error", err)
	}
}

// Patience returns how long this node waits for an unresponsive leader, depending on its own
// lateness.
func (m Members) Patience() time.Duration {
	o := &m.s.opts
	return o.HeartbeatTimeout * time.Duration(stretch(o.HeartbeatTimeout, m.s.late.usual(time.Now())))
}

// absence is since when something is not there.
type absence struct {
	mu    sync.Mutex // guards since
	since time.Time  // zero: it is there
}

// observe takes observe of whether it is there.
func (a *absence) observe(there bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case there:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = now
	}
}

// lasts returns for how long it has been gone; 0: it is there.
func (a *absence) lasts(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return 0
	}
	return now.Sub(a.since)
}

// Leaderless returns for how long no leader has been known; 0: one is.
func (m Members) Leaderless() time.Duration { return m.s.leaderless.lasts(time.Now()) }

// observeLeader takes note of who leads now.
func (s contacts) observeLeader() {
	id, known := s.of.Leader()
	s.of.leaderless.observe(known, time.Now())
	if known && id != s.of.last {
		s.of.last = id
		s.of.changes.Add(1)
	}
}
