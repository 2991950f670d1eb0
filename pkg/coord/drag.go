package coord

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// How a follower is judged that keeps up and slows everyone down.
const (
	// dragFactor is how many times longer than the other members a follower must take
	// for what everyone waits for, beside the round trip of its link.
	dragFactor = 4
	// dragShare is the part of the time, one in so many, in which the others must have
	// waited for it alone.
	dragShare = 2
	// dragPauses is how many times the wait doubles before a follower that was slow is
	// taken in again.
	dragPauses = 3
	// dragCalm is after how many windows in which it was not slow the wait is the
	// shortest again.
	dragCalm = 300
)

// drag measures how long a follower holds up what the other members have. Under load
// a follower on a slow link or disk acknowledges everything in time, and yet
// publishers that wait for each answer are slowed to its pace: lag in time does not
// show that. One batch after the other is timed from its append until the other
// members have it, and until the follower has it. A round trip of its link is not
// held against a follower: a distant one costs latency and no more. The term's lock
// guards it.
type drag struct {
	mark   seq.Offset    // end of the batch that is timed; 0: none is
	begun  time.Time     // when it was appended
	others time.Time     // when the other members had it; zero: not yet
	since  time.Time     // when the window began
	took   time.Duration // by the others in the window, together
	held   time.Duration // beyond that by the follower

	slow  bool      // the last window showed that it holds everyone up
	times int       // it left because of that
	calm  int       // windows in a row that showed nothing
	keeps time.Time // since when it has kept up, while it is out; zero: it does not
}

// appended notes that the log has come to end at an offset.
func (d *drag) appended(now time.Time, end seq.Offset) {
	if d.mark == 0 {
		d.mark, d.begun, d.others = end, now, time.Time{}
	}
}

// acked notes how far the follower and the least of the other members are. trip is
// the shortest round trip that was seen on the follower's link.
func (d *drag) acked(now time.Time, own, others seq.Offset, trip time.Duration) {
	if d.mark == 0 {
		return
	}
	if d.others.IsZero() && others >= d.mark {
		d.others = now
	}
	if own < d.mark || d.others.IsZero() {
		return
	}
	took := d.others.Sub(d.begun)
	d.took += took
	d.held += max(0, now.Sub(d.begun)-trip-took)
	d.mark = 0
}

// judge reports whether the follower is slow, when a window is over.
// What is not acknowledged yet does not count, and so a follower that is silent is
// not slow: it lags.
func (d *drag) judge(now time.Time, window time.Duration) {
	if d.since.IsZero() {
		d.since = now
	}
	if now.Sub(d.since) < window {
		return
	}
	d.slow = d.held*dragShare >= now.Sub(d.since) && d.held >= dragFactor*d.took
	if d.calm++; d.slow {
		d.calm = 0
	} else if d.calm >= dragCalm {
		d.times = 0
	}
	d.since, d.took, d.held = now, 0, 0
}

// pause returns how long a follower that left because it was slow must have kept up
// before it is taken in again.
func (d *drag) pause(lag time.Duration) time.Duration {
	if d.times == 0 {
		return 0
	}
	return lag << min(d.times-1, dragPauses)
}

// placed notes whether the follower was in sync and is. One that leaves while it is
// slow is out because of that. One that is taken in is judged from new.
func (d *drag) placed(was, is bool) {
	switch {
	case was && !is && d.slow:
		d.times++
		fallthrough
	case was != is:
		times, slow := d.times, d.slow && !is
		*d = drag{times: times, slow: slow}
	}
}

// rested reports whether a follower has kept up for as long as it must before it is
// taken in. It is asked repeatedly.
func (d *drag) rested(now time.Time, keepsUp bool, lag time.Duration) bool {
	if !keepsUp {
		d.keeps = time.Time{}
		return false
	}
	if d.keeps.IsZero() {
		d.keeps = now
	}
	return now.Sub(d.keeps) >= d.pause(lag)
}
