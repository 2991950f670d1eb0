package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// steps are possible changes of a wall clock.
var steps = map[string]time.Duration{"no step": 0, "an hour forward": time.Hour, "two days back": -48 * time.Hour}

// A message in flight times out, and a deferred message is due, after its own
// time, whatever happens to the wall clock.
func TestStepsOfTheWallClockChangeNoDelay(t *testing.T) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			at := func(d time.Duration) time.Time { return simtest.SetWall(start.Add(d), step) }
			s := New(0, false)
			s.Defer(0, start, 10*time.Second)
			s.Take(start, 1, 20*time.Second, 2, 3, nil)
			if err := s.Requeue(1, 1, start, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			for d, want := range map[time.Duration]int64{time.Second: 2, 9 * time.Second: 2} {
				if s.Expire(at(d), nil); s.View().Counts(3).Deferred != want {
					t.Errorf("after %v: %+v", d, s.View().Counts(3))
				}
			}
			if next, ok := s.NextEvent(); !ok || next.Sub(start) != 10*time.Second {
				t.Errorf("next event after %v", next.Sub(start))
			}
			if n := s.Expire(at(10*time.Second), nil); n != 0 || s.View().Counts(3).Deferred != 0 {
				t.Errorf("after 10s: %d timed out, %+v", n, s.View().Counts(3))
			}
			if n := s.Expire(at(20*time.Second), nil); n != 1 {
				t.Errorf("after 20s: %d timed out", n)
			}
		})
	}
}

// A restored deferral is due at its wall clock time, and at the latest its own
// delay after the restart.
func TestRestoredDelaysAreBounded(t *testing.T) {
	const delay = 10 * time.Second
	for name, tt := range map[string]struct {
		down time.Duration // the process was down for so long
		step time.Duration // and the clock was set meanwhile
		want time.Duration // the message is due so long after the restart
	}{
		"in time":       {down: 4 * time.Second, want: 5 * time.Second},
		"overdue":       {down: time.Minute, want: 0},
		"set forward":   {down: time.Second, step: time.Hour, want: 0},
		"set back":      {down: time.Second, step: -48 * time.Hour, want: delay},
		"a little back": {down: time.Second, step: -time.Second, want: 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			s := New(0, false)
			s.Take(start, 1, time.Minute, 1, 1, nil)
			if err := s.Requeue(0, 1, start, delay); err != nil {
				t.Fatal(err)
			}
			stopped := start.Add(time.Second)
			p := s.View().Position(stopped, stopped.UnixNano())
			again := stopped.Add(tt.down)
			r := Restore(p, false, again, again.Add(tt.step).UnixNano())
			next, ok := r.NextEvent()
			if got := max(0, next.Sub(again)); !ok || got != tt.want {
				t.Errorf("due after %v, want %v", got, tt.want)
			}
			if d := r.View().Position(again, again.UnixNano()).Deferred; d.Len() != 1 || first(d).Delay != delay {
				t.Errorf("stored again as %+v: the delay is the bound for the next restart, too", d)
			}
		})
	}
}

// A position uses the clock at the moment when it is made: a clock that was
// wrong before has no effect.
func TestPositionsFollowWallClock(t *testing.T) {
	start := time.Now()
	s := New(0, false)
	s.Take(start, 1, time.Minute, 1, 1, nil)
	if err := s.Requeue(0, 1, simtest.SetWall(start, 72*time.Hour), time.Minute); err != nil {
		t.Fatal(err)
	}
	wrong := simtest.SetWall(start.Add(time.Second), 72*time.Hour)
	due := func(p position.Position) time.Duration {
		return time.Duration(first(p.Deferred).At - start.UnixNano())
	}
	if got := due(s.View().Position(wrong, wrong.UnixNano())); got != 72*time.Hour+time.Minute {
		t.Errorf("due after %v while the clock is wrong", got)
	}
	right := start.Add(5 * time.Second)
	unset := s.View().Position(right, right.UnixNano())
	if got := due(unset); got.Round(time.Second) != time.Minute {
		t.Errorf("due after %v when the clock is right again", got)
	}
	jitter := s.View().Position(right.Add(time.Second), right.Add(time.Second+3*time.Millisecond).UnixNano())
	if !unset.Deferred.Equal(jitter.Deferred) {
		t.Errorf("an unchanged state has another position: %+v, %+v", unset, jitter)
	}
}

func TestPositionCoversDistantTimes(t *testing.T) {
	start := time.Unix(0, 0)
	p := position.Position{Deferred: position.NewDeferralSet(
		position.Deferral{Offset: 0, At: -1 << 63, Delay: 1<<63 - 1, Attempts: 1}, position.Deferral{Offset: seq.Offset(1), At: 1<<63 - 1, Delay: 1<<63 - 1, Attempts: 1})}
	s := Restore(p, false, start, 0)
	if s.Expire(start, nil); s.View().Counts(2).Deferred != 1 {
		t.Errorf("%+v", s.View().Counts(2))
	}
}
