package nodes

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStallIsTimeBeyondProbeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stalls
		if got := s.Take(); got != 0 {
			t.Errorf("a stall of %v before the first probe", got)
		}
		time.Sleep(probeInterval)
		s.succeed(time.Now())
		if got := s.Take(); got != 0 {
			t.Errorf("a stall of %v where there was none", got)
		}
		time.Sleep(probeInterval + 300*time.Millisecond)
		s.succeed(time.Now())
		time.Sleep(10 * time.Millisecond)
		if got := s.Take(); got != 300*time.Millisecond {
			t.Errorf("a stall of %v, want 300ms", got)
		}
		time.Sleep(probeInterval + 200*time.Millisecond)
		if got := s.Take(); got != 200*time.Millisecond {
			t.Errorf("a stall of %v that goes on, want 200ms", got)
		}
	})
}
