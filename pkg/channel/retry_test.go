package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestOldestExhaustedOrExpiredIsTakenFirst: whether it is exhausted or
// expired.
func TestOldestExhaustedOrExpiredIsTakenFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	r := s.Retries()
	s.Operator().SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.DeadLetter, OnExpired: policy.DeadLetter})
	s.Take(now, 1, time.Hour, 6, 6, nil)
	for o := range seq.Offset(6) {
		if o%2 == 0 {
			if err := s.Requeue(o, 1, now, 0); err != nil {
				t.Fatal(err)
			}
			continue
		}
		r.Expire(o)
	}
	for o, x := range r.Take(now, 2, time.Hour, 6, nil) {
		if x.Offset != seq.Offset(o) || x.Expired != (o%2 == 1) { //nolint:gosec // an index
			t.Errorf("%d: %+v", o, x)
		}
	}
}

// TestMessageExpiresOnce: however often it is taken.
func TestMessageExpiresOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	r := s.Retries()
	if r.MarkExpired(0) {
		t.Error("a message that is not taken has lived too long")
	}
	for i := range 3 {
		s.Take(now, 1, time.Hour, 1, 1, nil)
		if first := r.MarkExpired(0); first != (i == 0) {
			t.Errorf("take %d: new is %v", i, first)
		}
		if s.View().Deferrals().Advanced(0) {
			t.Error("advanced")
		}
		s.UndoTake(0)
	}
}

// TestLateResumeDoesNotEndLaterPark: a message that was delivered and requeued again before the
// first requeue was recorded waits for the second.
func TestLateResumeDoesNotEndLaterPark(t *testing.T) {
	start := time.Unix(1000, 0)
	s := New(0, false)
	r := s.Retries()
	park := func(now time.Time) {
		s.Expire(now, nil)
		if got := s.Take(now, 1, time.Hour, 1, 1, nil); len(got) != 1 {
			t.Fatalf("took %v at %v", got, now)
		}
		if err := r.Park(0, 1, now, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	again := start.Add(time.Second)
	park(start)
	park(again)
	r.Resume(0, start, again, 0)
	if state, _ := s.View().StateOf(0); state != Deferred {
		t.Errorf("after the first requeue was recorded: %v", state)
	}
	r.Resume(0, again, again, 0)
	if state, _ := s.View().StateOf(0); state != Ready {
		t.Errorf("after the second requeue was recorded: %v", state)
	}
}
