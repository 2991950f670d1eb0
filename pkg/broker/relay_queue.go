package broker

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// relayed is a delivery that came from the leader.
type relayed struct {
	topic.Delivery
	since time.Time // it was here
}

// relayQueue is what the leader sent and the client has not taken, in order. It is
// guarded by its relay's lock.
type relayQueue struct {
	all   []relayed
	bytes int // of bodies
}

func (q *relayQueue) push(d relayed) {
	q.all = append(q.all, d)
	q.bytes += len(d.Body)
}

// shift takes up to max messages off the head, and appends them to out.
func (q *relayQueue) shift(max int, out []relayed) []relayed {
	n := min(len(q.all), max)
	out = append(out, q.all[:n]...)
	for _, d := range q.all[:n] {
		q.bytes -= len(d.Body)
	}
	clear(q.all[:n])
	if q.all = q.all[n:]; len(q.all) == 0 {
		q.all = nil
	}
	return out
}

// unshift puts messages back before the head.
func (q *relayQueue) unshift(rest []relayed) {
	for _, d := range rest {
		q.bytes += len(d.Body)
	}
	q.all = append(append(make([]relayed, 0, len(rest)+len(q.all)), rest...), q.all...)
}

// dropBefore drops what was here before a time, and returns how many messages.
func (q *relayQueue) dropBefore(t time.Time) int {
	n := 0
	for n < len(q.all) && !q.all[n].since.After(t) {
		n++
	}
	q.shift(n, nil)
	return n
}

// lose drops the messages of partitions.
func (q *relayQueue) lose(lost func(partition int) bool) {
	q.all = slices.DeleteFunc(slices.Clone(q.all), func(d relayed) bool {
		gone := lost(d.ID.Partition())
		if gone {
			q.bytes -= len(d.Body)
		}
		return gone
	})
}

// flight is a message that the client has.
type flight struct {
	expires time.Time
	until   time.Time // that touching extends it to
}

// flights are the messages that the client has. They are guarded by their relay's
// lock.
type flights struct {
	all    map[seq.MessageID]flight
	expiry time.Time // none times out before
}

func (f *flights) add(id seq.MessageID, m flight) {
	f.all[id] = m
	if f.expiry.IsZero() || m.expires.Before(f.expiry) {
		f.expiry = m.expires
	}
}

// expire forgets what has timed out: the leader has done so, too.
func (f *flights) expire(now time.Time) {
	if len(f.all) == 0 || now.Before(f.expiry) {
		return
	}
	f.expiry = time.Time{}
	for id, m := range f.all {
		if m.expires.After(now) {
			f.add(id, m)
		} else {
			delete(f.all, id)
		}
	}
}

// next returns when the first may time out, the zero time if there is none.
func (f *flights) next() time.Time {
	if len(f.all) == 0 {
		return time.Time{}
	}
	return f.expiry
}

// roomTimer wakes a subscription that has no room for what a relay has. It is for the
// goroutine that takes.
type roomTimer struct{ timer *time.Timer }

// await calls wake when a message that came through a relay times out at the client, if
// a relay waits for room. What this node leads wakes the subscription by itself.
func (t *roomTimer) await(set *sources, now time.Time, wake func()) {
	waits, first := false, time.Time{}
	for _, r := range set.relays {
		waiting, expiry := r.waiting()
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
