package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// TestDepthBeforeHiddenMessages: what is known of messages that are not visible yet, as in a paused
// topic, says nothing about those that wait.
func TestDepthBeforeHiddenMessages(t *testing.T) {
	const end = 10
	s := New(0, false)
	if got := s.Take(moveTime, 1, time.Minute, 4, end, nil); len(got) != 4 {
		t.Fatalf("took %v", got)
	}
	counts := func(what string, s *State, depth, inFlight, deferred int64) {
		t.Helper()
		if c := s.Counts(end); c.Depth != depth || c.InFlight != inFlight || c.Deferred != deferred {
			t.Errorf("%s: %+v, want a depth of %d, %d in flight, %d deferred", what, c, depth, inFlight, deferred)
		}
	}
	counts("taken", s, 6, 4, 0)
	PassOver(s, 12)
	counts("passed over", s, 6, 4, 0)
	s.Defer(13, moveTime, time.Second)
	counts("deferred", s, 6, 4, 1)
	s.Defer(14, moveTime, time.Hour)
	counts("deferred for long", s, 6, 4, 2)
	Await(s, 15, 2, moveTime, 0)
	counts("addressed", s, 6, 4, 2)
	Move(s, Copy{From: 3, To: 16}, moveTime)
	counts("moved", s, 6, 4, 2)
	Move(s, Copy{From: 8, To: 17}, moveTime)
	counts("another replaced", s, 5, 4, 2)
	s.Expire(moveTime.Add(2*time.Second), nil)
	counts("due", s, 5, 4, 1)
	counts("restored", Restore(s.Position(moveTime.Add(2*time.Second), 0), false, moveTime, 0), 8, 0, 1)
	if c := s.Counts(18); c.Depth != 5+5 {
		t.Errorf("all visible: %+v, want a depth of 10: also 10, 11, 13, 15 and 17", c)
	}
}

// TestDepthBeforeManyHiddenDeferrals: every other message is deferred, in many pages.
func TestDepthBeforeManyHiddenDeferrals(t *testing.T) {
	const n = 3000
	s := New(0, false)
	for o := seq.Offset(1); o < n; o += 2 {
		s.Defer(o, moveTime, time.Hour)
	}
	for _, end := range []seq.Offset{1, 2, 1000, 1001, n - 1, n} {
		if c := s.Counts(end); c.Depth != int64(end+1)/2 {
			t.Errorf("up to %d: a depth of %d, want %d", end, c.Depth, (end+1)/2)
		}
	}
}
