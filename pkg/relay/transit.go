package relay

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// message is a delivery received from the leader.
type message struct {
	topic.Delivery
	since time.Time // when it arrived
	frees int       // bytes charged for the answer that it is the last message of
}

// queue holds the messages that the leader sent and the client has not taken, in order. Its relay's
// lock guards it.
type queue struct {
	all   []message
	bytes int // of bodies
	held  int // bytes charged for the answers that the messages came in
}

func (q *queue) push(d message) {
	q.all = append(q.all, d)
	q.bytes += len(d.Body)
	q.held += d.frees
}

// shift removes up to max messages from the head, and appends them to out.
func (q *queue) shift(max int, out []message) []message {
	n := min(len(q.all), max)
	out = append(out, q.all[:n]...)
	for _, d := range q.all[:n] {
		q.bytes -= len(d.Body)
		q.held -= d.frees
	}
	clear(q.all[:n])
	if q.all = q.all[n:]; len(q.all) == 0 {
		q.all = nil
	}
	return out
}

// unshift returns messages to the head.
func (q *queue) unshift(rest []message) {
	for _, d := range rest {
		q.bytes += len(d.Body)
		q.held += d.frees
	}
	q.all = append(append(make([]message, 0, len(rest)+len(q.all)), rest...), q.all...)
}

// dropBefore drops messages that arrived before a time, and returns their number.
func (q *queue) dropBefore(t time.Time) int {
	n := 0
	for n < len(q.all) && !q.all[n].since.After(t) {
		n++
	}
	q.shift(n, nil)
	return n
}

// lose drops the messages of lost partitions. A message that stays keeps the memory of its answer.
func (q *queue) lose(lost func(partition int) bool) {
	all := q.all
	q.all, q.bytes, q.held = make([]message, 0, len(all)), 0, 0
	for _, d := range all {
		if !lost(d.ID.Partition()) {
			q.push(d)
		} else if n := len(q.all); n > 0 {
			q.all[n-1].frees += d.frees
			q.held += d.frees
		}
	}
}

// flight is a message that the client has.
type flight struct {
	expires time.Time
	until   time.Time // maximum by touching
	alone   bool      // it is isolated
}

// flights are the messages that the client has. Their relay's lock guards them.
type flights struct {
	all    map[seq.MessageID]flight
	expiry time.Time // no message times out before
	count  atomic.Int64
}

func (f *flights) add(id seq.MessageID, m flight) {
	f.all[id] = m
	f.count.Store(int64(len(f.all)))
	if f.expiry.IsZero() || m.expires.Before(f.expiry) {
		f.expiry = m.expires
	}
}

func (f *flights) drop(id seq.MessageID) {
	delete(f.all, id)
	f.count.Store(int64(len(f.all)))
}

// expire drops messages that have timed out, as the leader has done as well.
func (f *flights) expire(now time.Time) {
	if len(f.all) == 0 || now.Before(f.expiry) {
		return
	}
	f.expiry = time.Time{}
	for id, m := range f.all {
		if m.expires.After(now) {
			f.add(id, m)
		} else {
			f.drop(id)
		}
	}
}

// alone reports whether the client has an isolated message.
func (f *flights) alone() bool {
	for _, m := range f.all { // an isolated one is the only one
		return m.alone
	}
	return false
}

// next returns when the first message may time out; zero time if there is none.
func (f *flights) next() time.Time {
	if len(f.all) == 0 {
		return time.Time{}
	}
	return f.expiry
}

// transit holds the messages from the leader that are not answered: in the queue until the client
// takes them, then in flight. Its relay's lock guards it.
type transit struct {
	timeout    time.Duration // of a delivery
	maxTimeout time.Duration // maximum by touching
	expired    func()        // called, without the lock, when the head of the queue has timed out

	queue    queue
	room     room
	inFlight flights
	overdue  *time.Timer // nil if not needed yet
	watched  bool        // overdue is set for the head of the queue, or an earlier one
	stalled  bool        // the queue timed out: fetch nothing before the next reserve
}

// reserve moves up to max messages from the queue into flight, and appends them to out. It skips
// messages that have timed out.
func (t *transit) reserve(now time.Time, max int, out []message) []message {
	t.stalled = false
	t.queue.dropBefore(now.Add(-t.timeout))
	out = t.queue.shift(max, out)
	for _, d := range out {
		t.inFlight.add(d.ID, flight{d.since.Add(t.timeout), d.since.Add(t.maxTimeout), d.Alone})
		t.room.out += d.frees
	}
	return out
}

// delivered ends the delivery of reserved messages, and returns the rest, which was not delivered.
func (t *transit) delivered(now time.Time, rest []message) {
	t.room.out = 0
	if len(rest) == 0 {
		return
	}
	for _, d := range rest {
		t.inFlight.drop(d.ID)
	}
	t.queue.unshift(rest)
	t.watch(now)
}

// watch ensures that expired is called when the head of the queue has timed out, even if the client
// takes nothing.
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

// unwatch ends watching with the relay.
func (t *transit) unwatch() {
	if t.overdue != nil {
		t.overdue.Stop()
	}
}

// dropExpired drops messages that timed out in the queue, and returns their number. The client does
// not read, or has no capacity: further fetched messages would time out as well, and would be
// unavailable to other consumers meanwhile. The next reserve continues.
func (t *transit) dropExpired(now time.Time) int {
	t.watched = false
	dropped := t.queue.dropBefore(now.Add(-t.timeout))
	t.watch(now)
	if dropped > 0 {
		t.stalled = true
	}
	return dropped
}
