package coord

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Criteria for a follower that keeps up and slows down all others.
const (
	// dragFactor is how many times longer than the other members a follower must take, without the
	// round trip of its link.
	dragFactor = 4
	// dragShare is the fraction of the time, as a divisor, in which the others must have waited for
	// it alone.
	dragShare = 2
	// dragPauses is how often the wait before a slow follower is admitted again may double.
	dragPauses = 3
	// dragCalm is the number of windows without slowness after which the wait is reset.
	dragCalm = 300
)

// drag measures how long a follower delays what the other members have. Under load a follower on a
// slow link or disk acknowledges everything in time, but slows publishers that wait for each answer
// to its pace: its lag in time does not show that. One batch after another is timed from its append
// until the other members have it, and until the follower has it. The round trip of its link is not
// counted: a distant follower adds latency and nothing else. The term's lock guards it.
type drag struct {
	mark   seq.Offset    // end of the batch being timed; 0: none
	begun  time.Time     // when it was appended
	others time.Time     // when the other members had it; zero: not yet
	since  time.Time     // when the window began
	took   time.Duration // total time of the others in the window
	held   time.Duration // further time of the follower

	slow  bool      // in the last window it delayed all others
	times int       // how often it left because of that
	calm  int       // consecutive windows without slowness
	keeps time.Time // since when it has kept up, while it is out of sync; zero: it does not
}

// appended records the log's new end.
func (d *drag) appended(now time.Time, end seq.Offset) {
	if d.mark == 0 {
		d.mark, d.begun, d.others = end, now, time.Time{}
	}
}

// acked records the ends of the follower and of the least of the other members. trip is the
// shortest observed round trip of the follower's link.
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

// judge decides, at the end of a window, whether the follower is slow. Batches that are not
// acknowledged yet do not count, so a silent follower is not slow: it lags.
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

// pause returns how long a follower that left because it was slow must have kept up before it is
// admitted again.
func (d *drag) pause(lag time.Duration) time.Duration {
	if d.times == 0 {
		return 0
	}
	return lag << min(d.times-1, dragPauses)
}

// placed records whether the follower was in sync and is now. A slow follower that leaves has left
// because of that. An admitted one is measured from the beginning.
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

// rested reports whether a follower has kept up for the time required before its admission. It is
// called repeatedly.
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
