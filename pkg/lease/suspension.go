package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// sleepSlack is how much the machine's suspended time must have grown to count:
// smaller differences come from the time between reading two clocks.
const sleepSlack = 10 * time.Millisecond

// lookEvery is how long a check is reused for the next ones: each costs two system calls,
// and a busy partition asks a million times a second. A suspension between a check and
// the act that depends on it goes unnoticed in any case, so lookEvery is no longer than
// that act may take.
const lookEvery = 100 * time.Microsecond

// Suspension detects whether the machine was suspended. The monotonic clock stops
// meanwhile, and so does every time measured by it: a lease seems to hold, and a
// process seems to have been running.
type Suspension struct {
	slept func() time.Duration // in total; nil: unknown on this system
	base  time.Time
	until atomic.Int64 // since base, in ns: until then the last check is reused

	mu   sync.Mutex // guards most, and changes of woke
	most time.Duration
	woke atomic.Pointer[time.Time] // when a suspension was last detected; nil: never
}

// NewSuspension returns a Suspension that uses the total time for which the machine was
// suspended: see TimeSuspended. nil: unknown.
func NewSuspension(slept func() time.Duration) *Suspension {
	s := &Suspension{slept: slept, base: time.Now()}
	if slept != nil {
		for range 3 { // each reading may be too low, and none too high
			s.most = max(s.most, slept())
		}
	}
	return s
}

// Last returns when a suspension of the machine was last detected: now, if there was one
// since the last check. The zero time means never.
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
