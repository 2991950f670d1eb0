package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSuspendedMachineHoldsNoLease: the machine is suspended, and the monotonic clock stops.
// Earlier confirmations no longer count.
func TestSuspendedMachineHoldsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		contact, confirmed := time.Now(), time.Now()
		l := leaseOf(&contact, &confirmed)
		l.contact.suspended = NewSuspension(func() time.Duration { return slept })
		wants := func(what string, want bool) {
			t.Helper()
			if got := l.Held(time.Now()); got != want {
				t.Errorf("%s: held %v", what, got)
			}
		}
		wants("confirmed", true)
		time.Sleep(100 * time.Millisecond)
		slept += time.Minute
		wants("behind a suspension of a minute", false)
		time.Sleep(100 * time.Millisecond)
		contact = time.Now()
		wants("in touch with the quorum, which says nothing of the minute", false)
		confirmed = time.Now()
		wants("confirmed again", true)
		slept += time.Millisecond
		time.Sleep(lookEvery)
		wants("two clocks that are read one after the other", true)
	})
}

// TestSuspensionIsAGap: a relay's process was not running while its machine was
// suspended.
func TestSuspensionIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		p := NewPulse(time.Second, NewSuspension(func() time.Duration { return slept }))
		s := p.Begin()
		time.Sleep(100 * time.Millisecond)
		if !s.Steady(time.Now()) {
			t.Error("a gap without one")
		}
		slept += time.Minute
		time.Sleep(lookEvery)
		if s.Steady(time.Now()) {
			t.Error("no gap behind a suspension")
		}
		if s := p.Begin(); !s.Steady(time.Now()) {
			t.Error("the gap is found again")
		}
	})
}

// TestCheckIsCachedBriefly: a busy partition checks for each message, and a check makes system
// calls.
func TestCheckIsCachedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		s := NewSuspension(func() time.Duration { looks++; return 0 })
		looks = 0
		for range 10 {
			for range 100 {
				s.Last(time.Now())
			}
			time.Sleep(lookEvery)
		}
		if looks != 10 {
			t.Errorf("%d looks in ten moments", looks)
		}
	})
}
