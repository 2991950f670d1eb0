package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// sleepSlack is by how much the time that the machine was suspended must have grown to
// count: less is the moment between reading two clocks.
const sleepSlack = 10 * time.Millisecond

// lookEvery is how long a look counts for the next ones: each costs two system calls, and
// a busy partition asks a million times a second. A suspension between a look and what is
// done because of it goes unnoticed in any case, so this is no longer than that may take.
const lookEvery = 100 * time.Microsecond

// Suspension knows whether the machine was suspended. The monotonic clock stands still
// meanwhile, as does every time that is measured by it: a lease seems to hold, and a
// process seems to have been running.
type Suspension struct {
	slept func() time.Duration // in total; nil: that cannot be known here
	base  time.Time
	until atomic.Int64 // since base, in ns: the last look counts before

	mu   sync.Mutex // guards most, and changes of woke
	most time.Duration
	woke atomic.Pointer[time.Time] // when it was found last that it had been; nil: never
}

// NewSuspension returns a Suspension that goes by how long the machine was suspended in
// all: see TimeSuspended. nil: that cannot be known.
func NewSuspension(slept func() time.Duration) *Suspension {
	s := &Suspension{slept: slept, base: time.Now()}
	if slept != nil {
		for range 3 { // each may be read too low, and none too high
			s.most = max(s.most, slept())
		}
	}
	return s
}

// Last returns when it was found last that the machine had been suspended: now, if
// it was since the last look. What is older says nothing of the time since. The zero time
// is never.
func (s *Suspension) Last(now time.Time) time.Time {
	if s == nil || s.slept == nil {
		return time.Time{}
	}
	if now.Sub(s.base) >= time.Duration(s.until.Load()) {
		s.lookAt(now)
	}
	if woke := s.woke.Load(); woke != nil {
		return *woke
	}
	return time.Time{}
}

func (s *Suspension) lookAt(now time.Time) {
	slept := s.slept()
	s.mu.Lock()
	defer s.mu.Unlock()
	if slept > s.most+sleepSlack {
		woke := now
		s.most = slept
		s.woke.Store(&woke)
	}
	s.until.Store(int64(now.Sub(s.base) + lookEvery))
}
