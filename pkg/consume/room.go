package consume

import "time"

// roomTimer wakes a subscription without capacity for a relay's messages. Take's goroutine uses it.
type roomTimer struct{ timer *time.Timer }

// await calls wake when a relayed message times out at the client, if that is awaited, or a relay waits for
// capacity. Local sources wake the subscription themselves.
func (t *roomTimer) await(set *Sources, now time.Time, awaited bool, wake func()) {
	waits, first := awaited, time.Time{}
	for _, r := range set.Relays {
		waiting, expiry := r.Waiting()
		waits = waits || waiting
		if !expiry.IsZero() && (first.IsZero() || expiry.Before(first)) {
			first = expiry
		}
	}
	if !waits || first.IsZero() {
		return
	}
	wait := max(first.Sub(now), 0) + time.Millisecond
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, wake)
	} else {
		t.timer.Reset(wait)
	}
}

func (t *roomTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
