package relay

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// message is a delivery that came from the leader.
type message struct {
	topic.Delivery
	since time.Time // it was here
}

// queue is what the leader sent and the client has not taken, in order. It is
// guarded by its relay's lock.
type queue struct {
	all   []message
	bytes int // of bodies
}

func (q *queue) push(d message) {
	q.all = append(q.all, d)
	q.bytes += len(d.Body)
}

// shift takes up to max messages off the head, and appends them to out.
func (q *queue) shift(max int, out []message) []message {
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
func (q *queue) unshift(rest []message) {
	for _, d := range rest {
		q.bytes += len(d.Body)
	}
	q.all = append(append(make([]message, 0, len(rest)+len(q.all)), rest...), q.all...)
}

// dropBefore drops what was here before a time, and returns how many messages.
func (q *queue) dropBefore(t time.Time) int {
	n := 0
	for n < len(q.all) && !q.all[n].since.After(t) {
		n++
	}
	q.shift(n, nil)
	return n
}

// lose drops the messages of partitions.
func (q *queue) lose(lost func(partition int) bool) {
	q.all = slices.DeleteFunc(slices.Clone(q.all), func(d message) bool {
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

// transit is what came from the leader and is not answered: in the queue until the client
// takes it, in flight then. It is guarded by its relay's lock.
type transit struct {
	timeout    time.Duration // of a delivery
	maxTimeout time.Duration // that touching extends it to
	expired    func()        // called, without the lock, when the head of the queue has timed out

	queue    queue
	inFlight flights
	overdue  *time.Timer // nil: not needed yet
	watched  bool        // overdue is set: for the head of the queue, or one before it
	stalled  bool        // the queue timed out: nothing is to be fetched before the next reserve
}

// reserve moves up to max messages from the queue to what is in flight, and appends them
// to out. What has timed out is left out.
func (t *transit) reserve(now time.Time, max int, out []message) []message {
	t.stalled = false
	t.queue.dropBefore(now.Add(-t.timeout))
	out = t.queue.shift(max, out)
	for _, d := range out {
		t.inFlight.add(d.ID, flight{d.since.Add(t.timeout), d.since.Add(t.maxTimeout)})
	}
	return out
}

// giveBack returns what was reserved and not handed over.
func (t *transit) giveBack(now time.Time, rest []message) {
	for _, d := range rest {
		delete(t.inFlight.all, d.ID)
	}
	t.queue.unshift(rest)
	t.watch(now)
}

// watch sees to it that expired is called when the head of the queue has timed out,
// though the client takes nothing.
func (t *transit) watch(now time.Time) {
	if t.watched || len(t.queue.all) == 0 {
		return
	}
	t.watched = true
	wait := max(t.queue.all[0].since.Add(t.timeout).Sub(now), 0)
	if t.overdue == nil {
		t.overdue = time.AfterFunc(wait, t.expired)
	} else {
		t.overdue.Reset(wait)
	}
}

// unwatch is told that the relay has ended.
func (t *transit) unwatch() {
	if t.overdue != nil {
		t.overdue.Stop()
	}
}

// dropExpired drops what timed out in the queue, and returns how many messages. The client
// does not read, or has no room: what would be fetched for it now would time out as well,
// and is kept from other consumers meanwhile. The next reserve continues.
func (t *transit) dropExpired(now time.Time) int {
	t.watched = false
	dropped := t.queue.dropBefore(now.Add(-t.timeout))
	t.watch(now)
	if dropped > 0 {
		t.stalled = true
	}
	return dropped
}
