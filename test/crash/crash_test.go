package main

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestStallIsTimeBeyondProbeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stalls
		if got := s.take(); got != 0 {
			t.Errorf("a stall of %v before the first probe", got)
		}
		time.Sleep(probeInterval)
		s.succeed(time.Now())
		if got := s.take(); got != 0 {
			t.Errorf("a stall of %v where there was none", got)
		}
		time.Sleep(probeInterval + 300*time.Millisecond)
		s.succeed(time.Now())
		time.Sleep(10 * time.Millisecond)
		if got := s.take(); got != 300*time.Millisecond {
			t.Errorf("a stall of %v, want 300ms", got)
		}
		time.Sleep(probeInterval + 200*time.Millisecond)
		if got := s.take(); got != 200*time.Millisecond {
			t.Errorf("a stall of %v that goes on, want 200ms", got)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := options{rounds: 1, rate: 1, producers: 1}
	if err := good.validate(); err != nil || good.seed == 0 {
		t.Errorf("%v, seed %d", err, good.seed)
	}
	for _, bad := range []options{
		{rounds: 1, producers: 1}, {rounds: 1, rate: 1}, {rate: 1, producers: 1}, {rounds: -1, rate: 1, producers: 1},
	} {
		if bad.validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestMissingBinaryIsNamed(t *testing.T) {
	if _, err := newBroker(filepath.Join(t.TempDir(), "brokerd"), t.TempDir()); err == nil {
		t.Error("a program that is not there is accepted")
	}
}
