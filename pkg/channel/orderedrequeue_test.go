package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestDelayOfARequeueIsKeptInAnOrderedChannel: until the delay has passed nothing is delivered,
// also by a state restored from a checkpoint. Then the message is delivered, and later messages
// wait for it. Delays longer than the message timeout count.
func TestDelayOfARequeueIsKeptInAnOrderedChannel(t *testing.T) {
	const timeout, delay = time.Second, time.Minute
	start := time.Unix(1000, 0)
	for name, change := range map[string]func(*State, time.Time) *State{
		"the same state": func(s *State, _ time.Time) *State { return s },
		"a restored state": func(s *State, now time.Time) *State {
			return Restore(s.View().Position(now, now.UnixNano()), true, now, now.UnixNano())
		},
		"an order that was altered and altered back": func(s *State, _ time.Time) *State {
			for _, order := range []policy.Order{policy.Unordered, policy.Strict} {
				s.Operator().SetOrder(order)
			}
			return s
		},
	} {
		s := New(0, true)
		s.Take(start, 1, timeout, 9, 2, nil)
		if err := s.Requeue(0, 1, start, delay); err != nil {
			t.Fatal(err)
		}
		s = change(s, start)
		early := start.Add(delay - time.Millisecond)
		s.Expire(early, nil)
		if got := s.Take(early, 1, timeout, 9, 2, nil); len(got) > 0 {
			t.Errorf("%s: before the delay is over %v is delivered", name, got)
		}
		got := s.Take(start.Add(delay), 1, timeout, 9, 2, nil)
		if len(got) != 1 || got[0] != (Delivery{Offset: seq.Offset(0), Attempts: 2}) {
			t.Errorf("%s: when the delay is over %v is delivered", name, got)
		}
	}
}
