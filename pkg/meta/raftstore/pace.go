package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// latenessWindow is the shortest time for which a late moment counts; the longest is twice
	// that.
	latenessWindow = 15 * time.Second
	// maxStretch is the maximum factor by which timeouts grow.
	maxStretch = 8
	// tolerated is the fraction of a timeout, as a divisor, by which a process may be late without
	// waiting longer.
	tolerated = 5
)

// lateness is how late this process was recently: how late its timers fired, and how long its
// writes took. A process without enough processor or disk time takes as long to hear from healthy
// nodes, and to be heard: it must not take them for dead. A single late moment does not count: a
// process that was stopped once and continues is not slow.
type lateness struct {
	mu          sync.Mutex       // guards the fields below
	began       time.Time        // of the window
	now, before [2]time.Duration // the two worst of the window, and of the previous one
}

// observe records a late moment, or the duration of a write.
func (l *lateness) observe(at time.Time, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnLocked(at)
	l.now = worst(l.now, late)
}

// turnLocked begins the next window when it is due.
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

// stretch returns the factor by which a timeout grows for a lateness: 1 up to a fifth of the
// timeout, then it doubles with each doubling of the lateness, up to maxStretch.
func stretch(timeout, late time.Duration) int {
	factor := 1
	for limit := timeout / tolerated; late > limit && factor < maxStretch; limit *= 2 {
		factor *= 2
	}
	return factor
}

// pace sets how long this node waits for others. A leader leaves the heartbeats to contacts: the
// library's own come at random times, one after another, and each wakes this process and others.
// With a leader's timeout the library sends its own heartbeats only if contacts are delayed, for
// example by a slow disk, and still in time. Others wait as long as this process's own lateness
// requires.
func (s contacts) pace() {
	if !s.of.opts.distributed() {
		return
	}
	was := s.of.raft.ReloadableConfig()
	c := was
	c.HeartbeatTimeout, c.ElectionTimeout = s.of.opts.HeartbeatTimeout, s.of.opts.ElectionTimeout
	if s.of.raft.State() == raft.Leader {
		c.HeartbeatTimeout *= leaderTimeouts
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

// LeaderTimeout returns how long this node waits for an unresponsive leader, depending on its own
// lateness.
func (m Members) LeaderTimeout() time.Duration {
	o := &m.s.opts
	return o.HeartbeatTimeout * time.Duration(stretch(o.HeartbeatTimeout, m.s.late.usual(time.Now())))
}

// absence records since when something is missing.
type absence struct {
	mu    sync.Mutex // guards since
	since time.Time  // zero: it is present
}

// observe records whether it is present.
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

// lasts returns how long it has been missing; 0: it is present.
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

// observeLeader records whether there is a leader.
func (s contacts) observeLeader() {
	id, known := s.of.Leader()
	s.of.leaderless.observe(known, time.Now())
	if known && id != s.of.last {
		s.of.last = id
		s.of.changes.Add(1)
	}
}
