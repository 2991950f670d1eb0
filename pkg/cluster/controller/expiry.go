package controller

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Expiry decides when topics in the trash are due. Each process has one for all its controllers.
//
// The time in a deletion is from the clock of the metadata leader of that moment, and is judged by
// the clock of the present one: either may be wrong. So the age of a topic that this process saw
// being deleted is measured here, on the monotonic clock, and the time is ignored. A topic that was
// deleted before this process began to observe is due by its time, or once it has been seen here for
// its retention. It is not due before it has been seen for age.StepTrust (or its retention, if that
// is shorter): a clock that is wrong when a machine starts is corrected by then.
//
// The zero Expiry has seen nothing. Its methods are safe for concurrent use.
type Expiry struct {
	mu    sync.Mutex
	clock age.Steady
	last  meta.Trash       // what seen is from
	seen  map[uint64]sight // by the index of the deletion; nil: nothing was observed yet
}

// sight is since when a process has seen a topic in the trash.
type sight struct {
	at      time.Time
	deleted bool // it was deleted then
}

// Observe records which topics are in the trash now. Those of the first call were deleted before.
func (e *Expiry) Observe(s *meta.State, now time.Time, wall int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.observe(s, now, wall)
}

// Due returns the topics in the trash that are due.
func (e *Expiry) Due(s *meta.State, now time.Time, wall int64) (due []meta.Incarnation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	trusted := e.observe(s, now, wall)
	for d := range meta.TrashOf(s).All() {
		keep, seen := d.Topic.Config.Trash(), e.seen[d.Index]
		held := now.Sub(seen.at)
		stale := !seen.deleted && held >= min(age.StepTrust, keep) && trusted >= d.Until().UnixNano()
		if held >= keep || stale {
			due = append(due, d.Topic.Incarnation)
		}
	}
	return due
}

// observe returns the wall clock's trusted time. e.mu is held.
func (e *Expiry) observe(s *meta.State, now time.Time, wall int64) int64 {
	if trash := meta.TrashOf(s); e.seen == nil || !trash.Same(e.last) {
		seen := map[uint64]sight{}
		for d := range trash.All() {
			was, ok := e.seen[d.Index]
			if !ok {
				was = sight{now, e.seen != nil}
			}
			seen[d.Index] = was
		}
		e.seen, e.last = seen, trash
	}
	return e.clock.Read(now, wall)
}
