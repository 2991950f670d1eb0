package age

import "time"

// StepTrust is how long a wall clock that was set forward must stay there before
// data is deleted by it.
const StepTrust = time.Hour

// stepTolerance is how far a wall clock may drift from the monotonic one
// between two readings without counting as set.
const stepTolerance = time.Second

// Steady reads a wall clock for code that deletes data by age. A clock that is
// set forward would age all data at once; Steady continues at the pace of the
// monotonic clock until the new time has held for StepTrust. A clock that is set
// back is followed at once: data then counts as younger and stays longer. The
// clock at the start of a process is trusted. The zero Steady has read nothing.
// One goroutine uses it.
type Steady struct {
	wall  int64     // the last trusted reading
	at    time.Time // when it was taken
	ahead time.Time // since when the clock has been ahead; zero: it is not
}

// Read returns the time by which to judge ages, in ns since 1970, given a reading
// of the wall clock that was taken at now.
func (s *Steady) Read(now time.Time, wall int64) int64 {
	if s.at.IsZero() {
		s.wall, s.at = wall, now
		return wall
	}
	expected := s.wall + int64(now.Sub(s.at))
	if wall-expected > int64(stepTolerance) {
		if s.ahead.IsZero() {
			s.ahead = now
		}
		if now.Sub(s.ahead) < StepTrust {
			return expected
		}
	}
	s.wall, s.at, s.ahead = wall, now, time.Time{}
	return wall
}
