package client

import (
	"math/bits"
	"time"
)

// throttle makes a consumer accept fewer messages while its handler fails: after a failure it
// pauses, then tries a single message, and each success reverts one failure. It is pure, and not
// safe for concurrent use.
type throttle struct {
	least, most time.Duration // of a pause; most 0: disabled

	level int       // failures that no success has reverted
	until time.Time // the end of the pause
}

// flow is how many messages a consumer accepts.
type flow uint8

const (
	flowAll  flow = iota
	flowOne       // a single message, to test the handler
	flowNone      // a pause
)

// failed counts a failure and returns how long to pause; 0 if it already pauses or is disabled.
// Messages that were in flight together count as one failure.
func (t *throttle) failed(now time.Time, jitter float64) time.Duration {
	if t.most <= 0 || now.Before(t.until) {
		return 0
	}
	t.level++
	return t.pause(now, jitter)
}

// succeeded reverts a failure and returns how long to pause if others remain.
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
	for range min(t.level-1, bits.UintSize) {
		d = doubled(d, t.most)
	}
	d -= time.Duration(jitter * float64(d) / 2)
	t.until = now.Add(d)
	return d
}

// flow returns how many messages to accept now.
func (t *throttle) flow(now time.Time) flow {
	switch {
	case t.level == 0:
		return flowAll
	case now.Before(t.until):
		return flowNone
	}
	return flowOne
}
