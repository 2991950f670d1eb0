package replication

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// harmed is a disk on which copying delays publishes.
type harmed struct {
	base    time.Duration // of a commit, while nothing is copied
	perMega time.Duration // that the disk takes for each MiB that is copied
	every   time.Duration // between publishes; 0: there are none
	bytes   int           // of a publish, in a partition that is copied
}

// copies runs a catch-up for a time. It returns the MiB that were sent in its last second, and the
// 90th percentile of the publishes in the last two. Copies and publishes use the disk in order.
func copies(c *CatchUp, now time.Time, d harmed, length time.Duration) (end time.Time, mega float64, slow time.Duration) {
	const step, chunk = time.Millisecond, 64 << 10
	type pending struct {
		since, at time.Time
		copied    int
	}
	var open []pending
	var window []int // bytes sent in each of the last milliseconds
	var next time.Time
	var took []time.Duration
	stop := now.Add(length)
	for now.Before(stop) {
		free := now // when the disk has done all that is open
		if n := len(open); n > 0 {
			free = open[n-1].at
		}
		sent := 0
		for sent < 64<<20 && free.Sub(now) < 50*time.Millisecond && c.Delay(now) == 0 {
			c.Sent(chunk)
			sent += chunk
			free = free.Add(time.Duration(float64(chunk) / (1 << 20) * float64(d.perMega)))
			open = append(open, pending{now, free, chunk})
		}
		if window = append(window, sent); len(window) > 1000 {
			window = window[1:]
		}
		if d.every > 0 && !now.Before(next) {
			next = now.Add(d.every)
			open = append(open, pending{now, free.Add(d.base), 0})
		}
		now = now.Add(step)
		for ; len(open) > 0 && !open[0].at.After(now); open = open[1:] {
			switch p := open[0]; {
			case p.copied > 0:
				c.Answered(p.at, p.copied)
			case c.Copying():
				c.Committed(p.since, p.at, d.bytes)
			}
			if p := open[0]; p.copied == 0 && stop.Sub(p.since) < 2*time.Second {
				took = append(took, p.at.Sub(p.since))
			}
		}
	}
	total := 0
	for _, n := range window {
		total += n
	}
	if len(took) > 0 {
		slow = ninth(took)
	}
	return now, float64(total) / (1 << 20), slow
}

func TestCatchUpFindsItsRate(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name        string
		max         int64
		disk        harmed
		least, most float64       // MiB in the last second
		slowest     time.Duration // nine of ten publishes of the last two seconds
	}{
		{"no publishes", 0, harmed{}, 1000, 5000, 0},
		{"no publishes, a maximum is set", 50 << 20, harmed{}, 45, 52, 0},
		{"a maximum below the lowest rate", 1 << 20, harmed{}, 0.9, 1.2, 0},
		{"publishes are not harmed", 0, harmed{base: ms, every: 5 * ms}, 500, 5000, ms},
		{"200 MiB a second", 0, harmed{base: ms, perMega: 5 * ms, every: 5 * ms}, 20, 190, 5 * ms},
		{"20 MiB a second", 0, harmed{base: 4 * ms, perMega: 50 * ms, every: 20 * ms}, 3, 15, 14 * ms},
		{"20 MiB a second, few publish", 0, harmed{base: 4 * ms, perMega: 50 * ms, every: 150 * ms}, 3, 18, 20 * ms},
		{"100 MiB a second, and 20 are published to what is copied", 0, harmed{base: ms, perMega: 10 * ms, every: 5 * ms, bytes: 100_000}, 30, 90, 15 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCatchUp(tc.max)
			_, sent, slow := copies(c, time.Unix(1_700_000_000, 0), tc.disk, 120*time.Second)
			if sent < tc.least || sent > tc.most || slow > tc.slowest {
				t.Errorf("%.1f MiB in the last second, want %v to %v; publishes took %v, want %v", sent, tc.least, tc.most, slow, tc.slowest)
			}
		})
	}
}

// TestCatchUpAdapts: what a cycle with some commits does to a rate of 100 MiB a second.
func TestCatchUpAdapts(t *testing.T) {
	const ms = time.Millisecond
	of := func(n int, took time.Duration) []time.Duration { return slices.Repeat([]time.Duration{took}, n) }
	for _, tc := range []struct {
		name           string
		loaded, rested []time.Duration
		live           int // MiB published in the cycle to the copied partitions
		unpublished    bool
		want           float64 // MiB a second
	}{
		{name: "no publishes", unpublished: true, want: 150},
		{name: "as fast as without", loaded: of(9, ms), rested: of(9, ms), want: 125},
		{name: "not quite twice as long", loaded: of(9, 19*ms/10), rested: of(9, ms), want: 100},
		{name: "more than twice as long", loaded: of(9, 5*ms/2), rested: of(9, ms), want: 70},
		{name: "one of twenty takes long", loaded: append(of(19, ms), 50*ms), rested: of(9, ms), want: 125},
		{name: "too few while it copied", loaded: of(minCommits-1, 50*ms), rested: of(9, ms), want: 100},
		{name: "too few while it rested", loaded: of(9, 50*ms), rested: of(minCommits-1, ms), want: 100},
		{name: "longer than a rest", loaded: of(9, restFor+1), want: 70},
		{name: "longer than a rest, and so without", loaded: of(9, restFor+1), rested: of(9, restFor), want: 70},
		{name: "twice what is published", loaded: of(9, restFor+1), live: 40, want: 4 + 2*40/0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := catchUpPace{max: maxCatchUpRate, rate: 100 << 20, live: tc.live << 20, loaded: tc.loaded, rested: tc.rested}
			p.adapt(cycleFor, !tc.unpublished)
			if got := p.rate / (1 << 20); math.Abs(got-tc.want) > 0.01 {
				t.Errorf("%.2f MiB a second, want %v", got, tc.want)
			}
		})
	}
}

// TestCatchUpYieldsToNewPublishers: a rate that suited one load falls when it
// slows down another one.
func TestCatchUpYieldsToNewPublishers(t *testing.T) {
	const ms = time.Millisecond
	c := NewCatchUp(0)
	now, before, _ := copies(c, time.Unix(1_700_000_000, 0), harmed{base: 4 * ms, every: 5 * ms}, 20*time.Second)
	_, after, slow := copies(c, now, harmed{base: 4 * ms, perMega: 50 * ms, every: 20 * ms}, 60*time.Second)
	if before < 500 || after > 15 || slow > 14*ms {
		t.Errorf("%.1f MiB a second before, %.1f after; publishes took %v", before, after, slow)
	}
}

// TestCatchUpNeverStops: whatever the durations of commits, a wait is short and the rate
// stays within its bounds.
func TestCatchUpNeverStops(t *testing.T) {
	rng := testrand.New(t)
	c, now := NewCatchUp(0), time.Unix(1_700_000_000, 0)
	for range 100_000 {
		switch rng.IntN(4) {
		case 0:
			now = now.Add(time.Duration(rng.IntN(int(20 * time.Millisecond))))
		case 1:
			if rng.IntN(1000) == 0 {
				now = now.Add(time.Duration(rng.IntN(int(time.Minute))))
			}
		case 2:
			c.Committed(now.Add(-time.Duration(rng.IntN(int(time.Second)))), now, rng.IntN(1<<20))
		default:
			wait := c.Delay(now)
			if limit := time.Second; wait < 0 || wait > limit {
				t.Fatalf("told to wait for %v", wait)
			}
			if wait == 0 {
				c.Sent(rng.IntN(1 << 20))
			}
		}
		if rate, _ := c.Rate(now); rate < minCatchUpRate-1 || rate > maxCatchUpRate {
			t.Fatalf("rate %d is out of bounds", rate)
		}
	}
}

// TestCatchUpForgets: a copy an hour later begins at once, and with a new measurement.
func TestCatchUpForgets(t *testing.T) {
	c := NewCatchUp(0)
	now, _, _ := copies(c, time.Unix(1_700_000_000, 0), harmed{base: time.Millisecond, perMega: time.Millisecond, every: time.Millisecond}, 5*time.Second)
	now = now.Add(time.Hour)
	if _, copying := c.Rate(now); copying {
		t.Error("still copying after an hour")
	}
	c.Committed(now, now.Add(time.Millisecond), 0)
	if c.Copying() {
		t.Error("commits are still asked for")
	}
	if wait := c.Delay(now); wait != 0 {
		t.Errorf("the first copy has to wait for %v", wait)
	}
	if len(c.pace.loaded)+len(c.pace.rested) != 0 {
		t.Error("commits of an hour ago are kept")
	}
}

func TestNoCatchUpSetsNoLimit(t *testing.T) {
	var c *CatchUp
	c.Sent(1 << 30)
	if c.Delay(time.Time{}) != 0 || c.Copying() {
		t.Error("there is a limit")
	}
}

// TestOutOfSyncReplicaIsSentAtTheRate: only a replica that is out of sync waits for the
// rate.
func TestOutOfSyncReplicaIsSentAtTheRate(t *testing.T) {
	const size, rate = 64 << 20, minCatchUpRate
	for _, tc := range []struct {
		name        string
		pace        Pace
		least, most time.Duration
	}{
		{"out of sync", Pace{Sync: true, CatchUp: true}, 10 * time.Second, 20 * time.Second},
		{"in sync", Pace{Sync: true}, 0, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, follower := newReplica(t, "leader"), newReplica(t, "follower")
				text := strings.Repeat("x", 1<<20)
				for range size >> 20 {
					appendTexts(t, leader.log, 1, text)
				}
				if err := follower.follower.Adopt(Following{Epoch: 1}); err != nil {
					t.Fatal(err)
				}
				l := &link{to: follower.follower, delay: instant, up: true}
				done := make(chan time.Time, 1)
				r := NewReplicator(ReplicatorOptions{
					Log: leader.log, Partition: Partition{1, 0}, Epoch: 1, Caller: l, CatchUp: NewCatchUp(rate),
					Events: Events{
						Acked: func(p Progress) {
							if p.End == leader.log.End() {
								select {
								case done <- time.Now():
								default:
								}
							}
						},
						Forget: func(uint64) {}, Superseded: func(seq.Epoch) {},
					},
				}, tc.pace)
				defer r.Stop()
				began := time.Now()
				r.Connected()
				if took := (<-done).Sub(began); took < tc.least || took > tc.most {
					t.Errorf("%d bytes took %v, want %v to %v", size, took, tc.least, tc.most)
				}
			})
		})
	}
}
