package age

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestBatchAgeSurvivesClockSteps(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	tests := []struct {
		name  string
		step  time.Duration // of this node's wall clock after the batch was appended
		skew  time.Duration // of the leader's clock against this node's
		heard bool          // the batch was received as it was appended
		want  time.Duration
	}{
		{name: "clocks agree", heard: true, want: time.Minute},
		{name: "set forward", step: time.Hour, heard: true, want: time.Minute},
		{name: "set back", step: -48 * time.Hour, heard: true, want: time.Minute},
		{name: "the leader's is ahead", skew: time.Hour, heard: true, want: time.Minute},
		{name: "the leader's is behind", skew: -time.Hour, heard: true, want: time.Minute},
		{name: "loaded", want: time.Minute},
		{name: "loaded, stamped in the future", skew: 48 * time.Hour, want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wall := start.UnixNano()
			c := NewClock(func(time.Time) int64 { return wall })
			stamp := wall + int64(tt.skew)
			if tt.heard {
				c.Appended(Batch{7, 3, stamp}, start)
			}
			now := start.Add(time.Minute)
			wall += int64(time.Minute + tt.step)
			if got := c.Age(Batch{7, 3, stamp}, now); got != tt.want {
				t.Errorf("age %v, want %v", got, tt.want)
			}
			leader := wall
			if tt.heard {
				leader = stamp + int64(time.Minute)
			}
			if got := c.Leader(now); got != leader {
				t.Errorf("the leader's clock shows %d, want %d", got, leader)
			}
		})
	}
}

func TestEachLeaderClockStepBeginsAPair(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	c := NewClock(func(time.Time) int64 { return 0 })
	var all []Batch
	step := time.Duration(0)
	for i := range 100 {
		if i%10 == 0 {
			step = time.Duration(i%3-1) * 26 * time.Hour
		}
		at := start.Add(time.Duration(i) * time.Second)
		b := Batch{seq.Offset(10 * i), seq.Epoch(1 + i/25), at.Add(step).UnixNano()}
		c.Appended(b, at)
		all = append(all, b)
	}
	now := start.Add(100 * time.Second)
	for i, b := range all {
		if got, want := c.Age(b, now), now.Sub(start.Add(time.Duration(i)*time.Second)); got != want {
			t.Errorf("batch %d: age %v, want %v", i, got, want)
		}
	}
	if len(c.pairs) > 14 {
		t.Errorf("%d pairs", len(c.pairs))
	}
}

func TestPairsArePrunedWithTheirBatches(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	c := NewClock(func(time.Time) int64 { return start.Add(time.Hour).UnixNano() })
	for i := range 2 * maxPairs {
		c.Appended(Batch{seq.Offset(i), seq.Epoch(i), 1000}, start)
	}
	if len(c.pairs) != maxPairs {
		t.Fatalf("%d pairs", len(c.pairs))
	}
	now := start.Add(time.Minute)
	newest := seq.Offset(2*maxPairs - 1)
	if got := c.Age(Batch{newest, seq.Epoch(newest), 1000}, now); got != time.Minute {
		t.Errorf("the newest has an age of %v", got)
	}
	if got := c.Age(Batch{3, 3, start.UnixNano()}, now); got != time.Hour {
		t.Errorf("one that is forgotten has an age of %v, not that by the wall clock", got)
	}
	if got := c.Age(Batch{newest, seq.Epoch(newest) - 5, start.UnixNano()}, now); got != time.Hour {
		t.Errorf("one that was copied from an older epoch has an age of %v, not that by the wall clock", got)
	}
	c.Appended(Batch{newest - 4, 1000, 5}, now) // the log was cut back there
	if got := c.Age(Batch{newest, 1000, 5}, now); got != 0 {
		t.Errorf("what took the place of a batch that was cut off has an age of %v", got)
	}
}

func TestSteady(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	type reading struct {
		after time.Duration // since the start, monotonic
		step  time.Duration // of the wall clock against that
		want  time.Duration // of the answer against that
	}
	tests := []struct {
		name     string
		readings []reading
	}{
		{"no step", []reading{{time.Minute, 0, 0}, {2 * time.Hour, 0, 0}}},
		{"small corrections add up", []reading{
			{time.Minute, 900 * time.Millisecond, 900 * time.Millisecond},
			{2 * time.Minute, 1800 * time.Millisecond, 1800 * time.Millisecond},
		}},
		{"wrong for four seconds", []reading{{time.Second, 72 * time.Hour, 0}, {4 * time.Second, 72 * time.Hour, 0}, {5 * time.Second, 0, 0}}},
		{"set forward for good", []reading{
			{time.Second, time.Hour, 0},
			{StepTrust, time.Hour, 0},
			{StepTrust + time.Second, time.Hour, time.Hour},
			{StepTrust + time.Minute, time.Hour, time.Hour},
		}},
		{"set back at once", []reading{{time.Second, -time.Hour, -time.Hour}, {time.Minute, -time.Hour, -time.Hour}}},
		{"strobe", []reading{
			{time.Second, 72 * time.Hour, 0},
			{2 * time.Second, 0, 0},
			{StepTrust, 72 * time.Hour, 0},
			{StepTrust + time.Minute, 0, 0},
			{StepTrust + 2*time.Minute, 72 * time.Hour, 0},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Steady
			s.Read(start, start.UnixNano())
			for _, r := range tt.readings {
				now := start.Add(r.after)
				if got, want := s.Read(now, now.Add(r.step).UnixNano()), now.Add(r.want).UnixNano(); got != want {
					t.Errorf("after %v, set by %v: off by %v", r.after, r.step, time.Duration(got-want))
				}
			}
		})
	}
}
