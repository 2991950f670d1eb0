package client

import "time"

// throttle is how a consumer takes less while its handler fails: after a failure it pauses,
// then tries with a single message, and each success takes back one failure. It is pure, and
// for one goroutine at a time.
type throttle struct {
	least, most time.Duration // of a pause; most 0: it never throttles

	level int       // failures that no success has taken back
	until time.Time // the end of the pause
}

// flow is how much a consumer takes.
type flow uint8

const (
	flowAll  flow = iota
	flowOne       // a single message, to see how it goes
	flowNone      // a pause
)

// failed counts a failure and returns how long to pause; 0: it pauses already, or never
// does. Messages that were in flight together fail together: they count once.
func (t *throttle) failed(now time.Time, jitter float64) time.Duration {
	if t.most <= 0 || now.Before(t.until) {
		return 0
	}
	t.level++
	return t.pause(now, jitter)
}

// succeeded takes back a failure and returns how long to pause, since there are others.
func (t *throttle) succeeded(now time.Time, jitter float64) time.Duration {
	if t.level == 0 || now.Before(t.until) {
		return 0
	}
	if t.level--; t.level == 0 {
		return 0
	}
	return t.pause(now, jitter)
}

func (t *throttle) pause(now time.Time, jitter float64) time.Duration {
	d := t.least
	for range t.level - 1 {
		if d *= 2; d >= t.most {
			break
		}
	}
	d = min(d, t.most)
	d -= time.Duration(jitter * float64(d) / 2)
	t.until = now.Add(d)
	return d
}

// flow returns how much is to be taken now.
func (t *throttle) flow(now time.Time) flow {
	switch {
	case t.level == 0:
		return flowAll
	case now.Before(t.until):
		return flowNone
	}
	return flowOne
}
