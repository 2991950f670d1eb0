package relay

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// arrivals is a transit with messages that arrived at the given times, with ids from 1 on.
func arrivals(timeout time.Duration, expired func(), at ...time.Time) *transit {
	t := &transit{timeout: timeout, maxTimeout: 2 * timeout, expired: expired, inFlight: flights{all: map[seq.MessageID]flight{}}}
	for i, since := range at {
		t.queue.push(message{Delivery: topic.Delivery{ID: seq.MessageID(i + 1), Body: []byte("x")}, since: since})
	}
	return t
}

func TestTimedOutMessagesHoldNoCredit(t *testing.T) {
	now := time.Now()
	x := arrivals(time.Second, nil, now.Add(-2*time.Second), now.Add(-time.Second), now)
	if got := x.reserve(now, 10, nil); len(got) != 1 || got[0].ID != 3 {
		t.Errorf("reserved %+v", got)
	}
	if n := len(x.inFlight.all); n != 1 {
		t.Errorf("%d in flight", n)
	}
}

// A requeued message is first in the queue again and not in flight. It times out at its original
// time, without another event.
func TestRequeuedMessagesTimeOutInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the relay's
		now, dropped := time.Now(), 0
		var x *transit
		x = arrivals(time.Second, func() {
			mu.Lock()
			defer mu.Unlock()
			dropped += x.dropExpired(time.Now())
		}, now, now)
		mu.Lock()
		x.delivered(now, x.reserve(now, 1, nil))
		if n := len(x.inFlight.all); n != 0 {
			t.Errorf("%d in flight", n)
		}
		if x.queue.all[0].ID != 1 || x.queue.bytes != 2 {
			t.Errorf("the queue has %d bytes and begins with %v", x.queue.bytes, x.queue.all[0].ID)
		}
		mu.Unlock()
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		mu.Lock()
		if dropped != 0 {
			t.Errorf("%d dropped too early", dropped)
		}
		mu.Unlock()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if dropped != 2 || !x.stalled {
			t.Errorf("%d dropped, stalled %v", dropped, x.stalled)
		}
	})
}

func TestTimedOutMessagesAreForgotten(t *testing.T) {
	now := time.Now()
	x := arrivals(time.Second, nil, now.Add(-time.Second/2), now)
	x.reserve(now, 2, nil)
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {time.Second/2 - 1, 2}, {time.Second / 2, 1}, {time.Second - 1, 1}, {time.Second, 0}} {
		if x.inFlight.expire(now.Add(c.after)); len(x.inFlight.all) != c.left {
			t.Errorf("%d in flight after %v, want %d", len(x.inFlight.all), c.after, c.left)
		}
	}
}

// TestLostMessagesNeedNoRoom: a relay that loses a partition fetches what the others have.
func TestLostMessagesNeedNoRoom(t *testing.T) {
	var q queue
	for i := range 4 {
		q.push(message{topic.Delivery{ID: seq.NewMessageID(i%2, 1), Body: make([]byte, QueueBytes)}, time.Now(), 0})
	}
	q.lose(func(partition int) bool { return partition == 1 })
	if len(q.all) != 2 || q.bytes != 2*QueueBytes {
		t.Errorf("%d messages and %d bytes are left", len(q.all), q.bytes)
	}
	if q.shift(9, nil); q.bytes != 0 {
		t.Errorf("the empty queue has %d bytes", q.bytes)
	}
}
