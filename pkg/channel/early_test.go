package channel

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
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
		if c := s.View().Counts(end); c.Depth != depth || c.InFlight != inFlight || c.Deferred != deferred {
			t.Errorf("%s: %+v, want a depth of %d, %d in flight, %d deferred", what, c, depth, inFlight, deferred)
		}
	}
	counts("taken", s, 6, 4, 0)
	s.Arrivals().Skip(12)
	counts("passed over", s, 6, 4, 0)
	s.Defer(13, moveTime, time.Second)
	counts("deferred", s, 6, 4, 1)
	s.Defer(14, moveTime, time.Hour)
	counts("deferred for long", s, 6, 4, 2)
	s.Arrivals().Add(15, 2, moveTime, 0)
	counts("addressed", s, 6, 4, 2)
	s.Arrivals().Move(Copy{From: 3, To: 16}, moveTime)
	counts("moved", s, 6, 4, 2)
	s.Arrivals().Move(Copy{From: 8, To: 17}, moveTime)
	counts("another replaced", s, 5, 4, 2)
	s.Expire(moveTime.Add(2*time.Second), nil)
	counts("due", s, 5, 4, 1)
	counts("restored", Restore(s.View().Position(moveTime.Add(2*time.Second), 0), false, moveTime, 0), 8, 0, 1)
	if c := s.View().Counts(18); c.Depth != 5+5 {
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
		if c := s.View().Counts(end); c.Depth != int64(end+1)/2 {
			t.Errorf("up to %d: a depth of %d, want %d", end, c.Depth, (end+1)/2)
		}
	}
}

// TestHiddenMessageDoesNotDelayOthers: a message of a paused topic becomes ready before it is visible.
func TestHiddenMessageDoesNotDelayOthers(t *testing.T) {
	const end = 3
	now := moveTime
	take := func(s *State, end seq.Offset) (out []seq.Offset) {
		for _, d := range s.Take(now, 1, time.Hour, 9, end, nil) {
			out = append(out, d.Offset)
		}
		return out
	}
	s := New(0, false)
	if got := take(s, end); len(got) != end {
		t.Fatalf("took %v", got)
	}
	for o := seq.Offset(end); o < 6; o++ {
		s.Defer(o, now, time.Second)
	}
	s.Arrivals().Add(7, 2, now, 0)
	now = now.Add(2 * time.Second)
	s.Expire(now, nil)
	for o := range seq.Offset(end) {
		if err := s.Requeue(o, 1, now, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !s.HasReady(now, end) {
		t.Error("nothing is ready")
	}
	if got := take(s, end); !slices.Equal(got, []seq.Offset{0, 1, 2}) {
		t.Errorf("took %v, want 0, 1 and 2, which are visible", got)
	}
	if got := take(s, end); len(got) > 0 || s.HasReady(now, end) {
		t.Errorf("took %v, which are not visible", got)
	}
	if err := s.Requeue(0, 1, now, 0); err != nil {
		t.Fatal(err)
	}
	s.Operator().Finish(4)
	if got := take(s, 8); !slices.Equal(got, []seq.Offset{6, 7, 3, 5, 0}) {
		t.Errorf("took %v once all are visible", got)
	}
	if c := s.View().Counts(8); c.Depth != 0 || c.InFlight != 7 {
		t.Errorf("%+v", c)
	}
}

// TestHiddenMessageIsDeliveredInOrder: a channel becomes strict while a message of a paused topic waits.
func TestHiddenMessageIsDeliveredInOrder(t *testing.T) {
	s := New(3, false)
	s.Defer(3, moveTime, time.Second)
	if later := moveTime.Add(time.Second); s.HasReady(later, 3) || !s.HasReady(later, 4) || s.HasReady(later, 3) {
		t.Fatalf("%d ready", s.ledger.ready)
	}
	s.Operator().SetOrder(policy.Strict)
	if got := s.Take(moveTime, 1, time.Minute, 9, 5, nil); len(got) != 1 || got[0].Offset != 3 {
		t.Errorf("took %v", got)
	}
}
