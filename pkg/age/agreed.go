package age

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ReportedSkew is from how much on a node reports that its wall clock differs from the others'.
const ReportedSkew = 500 * time.Millisecond

const (
	// agreeTolerance is how far the clocks of most nodes may differ from the agreed time before it is changed.
	agreeTolerance = 100 * time.Millisecond
	// agreeAfter is how long they must have differed by the same amount.
	agreeAfter = time.Minute
	// settleAfter is how long a leader that knows no time waits for the reports of all voters, before it takes that
	// of a majority: one that knows the time, or whose clock is right, may be among the others.
	settleAfter = time.Second
	// reportLasts is how long a report of a node counts.
	reportLasts = 3 * time.Second
	// maxRoundTrip is the longest round trip whose answer changes a time that is known.
	maxRoundTrip = 200 * time.Millisecond
)

// Report is what a node tells the leader of the metadata about its clocks: differences from the time in the
// leader's last answer. The zero Report is that of a node that has no answer yet.
type Report struct {
	Round uint64        // of the answer that was compared; 0: none
	Wall  time.Duration // how far the node's wall clock is ahead
	Own   time.Duration // how far the agreed time, as the node knew it before the answer, is ahead
	Known bool          // the node knew an agreed time
}

// Answer is the leader's time at the moment of its answer.
type Answer struct {
	Round uint64
	Time  int64         // ns since 1970
	Off   time.Duration // how far the clocks of most nodes are ahead of it
	Known bool          // it is the agreed time; false: the leader does not know that yet
}

// Agreed is the time on which the nodes of a cluster agree, as known on one of them. The leader of the metadata
// keeps it, on its monotonic clock; the others ask the leader with every heartbeat, and halve the round trip. A
// leader continues the time that it learned from the one before it. One that learned none takes it from a node
// that did, and otherwise from the wall clocks of a majority: their median. Later, the agreed time follows the
// median once that has differed by the same amount for agreeAfter: one node whose clock is wrong changes nothing,
// and neither does a clock that is wrong for a moment.
//
// A node that is alone has nothing to compare with: its time is its wall clock, as is that of a node that has
// not heard from a leader yet.
//
// The methods are safe for concurrent use.
type Agreed struct {
	wall func(now time.Time) int64

	mu    sync.Mutex // guards the fields below
	known bool
	alone bool
	at    time.Time // when read was the time
	read  int64
	off   time.Duration // see Answer

	// Of a node that asks.
	leader string // that answered last
	report Report

	// Of the leader.
	round   uint64           // identifies the time that reports are compared with; 0: this node has followed another since
	began   time.Time        // when it first led without a time
	reports map[string]heard // by node
	apart   time.Duration    // by how much the median has differed
	since   time.Time        // since when; zero: it does not
}

// heard is a report and when it arrived.
type heard struct {
	Report
	at time.Time
}

// NewAgreed returns the time of a node that knows nothing of the others. For wall see NewClock.
func NewAgreed(wall func(now time.Time) int64) *Agreed {
	if wall == nil {
		wall = System
	}
	return &Agreed{wall: wall}
}

// Read returns the time at now, in ns since 1970.
func (a *Agreed) Read(now time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known || a.alone {
		return a.wall(now)
	}
	return a.readLocked(now)
}

func (a *Agreed) readLocked(now time.Time) int64 { return a.read + int64(now.Sub(a.at)) }

// Known reports whether this node knows the agreed time, or is alone.
func (a *Agreed) Known() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known
}

// Skew returns how far this node's wall clock is ahead of those of most nodes; 0 if that is not known.
func (a *Agreed) Skew(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known || a.alone {
		return 0
	}
	return time.Duration(a.wall(now)-a.readLocked(now)) - a.off
}

// Report returns what to tell a leader.
func (a *Agreed) Report(leader string) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	if leader != a.leader {
		return Report{}
	}
	return a.report
}

// Heard takes the answer of a leader to a question that was sent and answered at the given moments.
func (a *Agreed) Heard(leader string, sent, received time.Time, x Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	trip := received.Sub(sent)
	if trip < 0 || trip > maxRoundTrip && a.known {
		return
	}
	middle := sent.Add(trip / 2)
	a.leader, a.report = leader, Report{Round: x.Round, Wall: time.Duration(a.wall(middle) - x.Time), Known: a.known && !a.alone}
	if a.report.Known {
		a.report.Own = time.Duration(a.readLocked(middle) - x.Time)
	}
	a.round = 0
	if !x.Known {
		return
	}
	a.off = x.Off
	if !a.report.Known || a.report.Own.Abs() > trip/2 {
		a.at, a.read = middle, x.Time
	}
	a.known, a.alone = true, false
}

// Answer takes the report of a node, and returns the answer. This node is the leader of the metadata, with the
// given number of voters.
func (a *Agreed) Answer(node string, r Report, voters int, now time.Time) Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leadLocked(voters, now)
	if r.Round == a.round {
		a.reports[node] = heard{r, now}
		a.settleLocked(voters, now)
	}
	return Answer{Round: a.round, Time: a.readLocked(now), Off: a.off, Known: a.known}
}

// Lead is called by the leader of the metadata from time to time.
func (a *Agreed) Lead(voters int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leadLocked(voters, now)
	a.settleLocked(voters, now)
}

// leadLocked begins a round if there is none.
func (a *Agreed) leadLocked(voters int, now time.Time) {
	if !a.known || a.alone {
		a.at, a.read, a.off = now, a.wall(now), 0 // until it knows better
	}
	if a.alone = voters <= 1; a.alone {
		a.known = true
	}
	if a.round == 0 {
		a.beginLocked(rand.Uint64())
		a.began = now
	}
}

// beginLocked begins a round: reports of others do not count.
func (a *Agreed) beginLocked(round uint64) {
	a.round, a.reports, a.off, a.since = max(round, 1), map[string]heard{}, 0, time.Time{}
}

// settleLocked compares the time with the clocks of a majority.
func (a *Agreed) settleLocked(voters int, now time.Time) {
	walls := []time.Duration{time.Duration(a.wall(now) - a.readLocked(now))}
	var known []time.Duration
	for node, r := range a.reports {
		if now.Sub(r.at) > reportLasts {
			delete(a.reports, node)
			continue
		}
		walls = append(walls, r.Wall)
		if r.Known {
			known = append(known, r.Own)
		}
	}
	switch {
	case a.alone || len(walls) <= voters/2:
		return
	case a.known:
		a.followLocked(median(walls, a.known), now)
		return
	case len(known) > 0:
		walls = known
	case len(walls) < voters && now.Sub(a.began) < settleAfter:
		return
	}
	a.known = true
	a.shiftLocked(median(walls, false))
}

// followLocked changes the time to that of most nodes once they have differed for long enough.
func (a *Agreed) followLocked(off time.Duration, now time.Time) {
	a.off = off
	switch {
	case off.Abs() <= agreeTolerance:
		a.since = time.Time{}
	case a.since.IsZero() || (off-a.apart).Abs() > stepTolerance:
		a.apart, a.since = off, now
	case now.Sub(a.since) >= agreeAfter:
		a.shiftLocked(off)
	}
}

// shiftLocked changes the time. Reports that compare with the former one do not count.
func (a *Agreed) shiftLocked(d time.Duration) {
	a.read += int64(d)
	a.beginLocked(a.round + 1)
}

// Skews returns how far the wall clocks of nodes are ahead of those of most nodes, as far as this node knows as
// the leader of the metadata, without its own.
func (a *Agreed) Skews(now time.Time) map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]time.Duration, len(a.reports))
	for node, r := range a.reports {
		if a.known && !a.alone && now.Sub(r.at) <= reportLasts {
			out[node] = r.Wall - a.off
		}
	}
	return out
}

// median returns the one in the middle. Of the two in the middle it is the one that is nearer to the present
// time, or else the earlier one: data counts as younger then, and is kept.
func median(all []time.Duration, known bool) time.Duration {
	slices.Sort(all)
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if known && high.Abs() < low.Abs() {
		return high
	}
	return low
}
