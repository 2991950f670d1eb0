package replication

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// harmed is a disk on which a publish takes longer, the more is copied beside it.
type harmed struct {
	base    time.Duration // of a commit, while nothing is copied
	perMega time.Duration // that each MiB a second adds
	every   time.Duration // between publishes; 0: there are none
	bytes   int           // of a publish, in a partition that is copied
}

// copies runs a catch-up for a time and returns the bytes that were sent in its last
// second.
func copies(c *CatchUp, now time.Time, d harmed, length time.Duration) (end time.Time, perSecond float64) {
	const step = time.Millisecond
	var window []int // bytes sent in each of the last milliseconds
	var next time.Time
	type pending struct{ since, at time.Time }
	var open []pending
	for range int(length / step) {
		sent := 0
		for c.Delay(now) == 0 {
			c.Sent(64 << 10)
			sent += 64 << 10
		}
		if window = append(window, sent); len(window) > 1000 {
			window = window[1:]
		}
		load := 0 // bytes copied in the last 10 ms
		for _, n := range window[max(0, len(window)-10):] {
			load += n
		}
		if d.every > 0 && !now.Before(next) {
			next = now.Add(d.every)
			took := d.base + time.Duration(float64(load)*100/(1<<20)*float64(d.perMega))
			at := now.Add(took)
			if len(open) > 0 && open[len(open)-1].at.After(at) {
				at = open[len(open)-1].at // commits are in order
			}
			open = append(open, pending{now, at})
		}
		now = now.Add(step)
		for len(open) > 0 && !open[0].at.After(now) {
			if c.Copying() {
				c.Committed(open[0].since, open[0].at, d.bytes)
			}
			open = open[1:]
		}
	}
	total := 0
	for _, n := range window {
		total += n
	}
	return now, float64(total)
}

func TestCatchUpFindsItsRate(t *testing.T) {
	const mega = 1 << 20
	for _, tc := range []struct {
		name        string
		max         int64
		disk        harmed
		least, most float64 // MiB in the last second
	}{
		{"nobody publishes", 0, harmed{}, 1000, 5000},
		{"nobody publishes, a maximum is set", 50 * mega, harmed{}, 45, 52},
		{"a maximum below the lowest rate", mega, harmed{}, 0.9, 1.2},
		{"publishes are not harmed", 0, harmed{base: time.Millisecond, every: 5 * time.Millisecond}, 500, 5000},
		{"twice as slow at 40 MiB a second", 0, harmed{base: 4 * time.Millisecond, perMega: 100 * time.Microsecond, every: 5 * time.Millisecond}, 12, 60},
		{"twice as slow at 400 MiB a second", 0, harmed{base: 4 * time.Millisecond, perMega: 10 * time.Microsecond, every: 5 * time.Millisecond}, 120, 600},
		{"harmed by any copy", 0, harmed{base: time.Millisecond, perMega: 10 * time.Millisecond, every: 5 * time.Millisecond}, 2.5, 8},
		{"harmed, and 20 MB a second are published to what is copied", 0, harmed{base: time.Millisecond, perMega: 10 * time.Millisecond, every: 5 * time.Millisecond, bytes: 100_000}, 30, 60},
		{"one publish in 300 ms", 0, harmed{base: time.Millisecond, perMega: 10 * time.Millisecond, every: 300 * time.Millisecond}, 2.5, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCatchUp(tc.max)
			_, sent := copies(c, time.Unix(1_700_000_000, 0), tc.disk, 60*time.Second)
			if sent /= mega; sent < tc.least || sent > tc.most {
				t.Errorf("%.1f MiB in the last second, want %v to %v", sent, tc.least, tc.most)
			}
		})
	}
}

// TestCatchUpNeverStops: whatever is told of commits, a wait is short and the rate stays
// within its bounds.
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

// TestCatchUpForgets: a copy an hour later begins without what was learned, and at once.
func TestCatchUpForgets(t *testing.T) {
	c := NewCatchUp(0)
	now, _ := copies(c, time.Unix(1_700_000_000, 0), harmed{base: time.Millisecond, perMega: time.Millisecond, every: time.Millisecond}, 5*time.Second)
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

// TestAReplicaOutOfSyncIsSentAtTheRate: what is not in sync waits for the rate, and what is
// does not.
func TestAReplicaOutOfSyncIsSentAtTheRate(t *testing.T) {
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
