package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseIsAGapBeforeAndAfterTheNextBeat(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPulse(time.Second, nil)
			first := p.Begin()
			for range 10 {
				time.Sleep(time.Second)
				if !first.Steady(time.Now()) {
					t.Fatal("a gap without a pause")
				}
				p.Beat(time.Now())
			}
			before := time.Now()
			time.Sleep(time.Second + 1)
			if early {
				p.Beat(time.Now()) // before the first call
			}
			for range 2 {
				if first.Steady(time.Now()) || first.Steady(before) {
					t.Error("steady after a pause")
				}
				p.Beat(time.Now())
			}
			if !p.Begin().Steady(time.Now()) {
				t.Error("what begins after a pause is not steady")
			}
		})
	}
}
