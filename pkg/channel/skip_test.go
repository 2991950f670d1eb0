package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestSkipLeavesHeldMessages(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	s.Take(now, 1, time.Minute, 1, 5, nil)
	if err := s.Holds().Add(0, 1); err != nil {
		t.Fatal(err)
	}
	s.Operator().Skip(0, 3)
	if s.Holds().Len() != 1 || s.View().Floor() != 0 {
		t.Fatalf("%d held, floor %d", s.Holds().Len(), s.View().Floor())
	}
	s.Holds().Confirm(0)
	if s.View().Floor() != 3 {
		t.Errorf("floor %d, want 3", s.View().Floor())
	}
}

func TestSkipLeavesInFlight(t *testing.T) {
	now := time.Unix(1, 0)
	s := New(0, false)
	s.Take(now, 1, time.Minute, 2, 10, nil) // 0 and 1
	s.Defer(6, now, time.Hour)
	s.Operator().Skip(1, 8)
	if got := s.View().Counts(10); got.Depth != 2 || got.InFlight != 2 || got.Deferred != 0 {
		t.Fatalf("counts %+v; want 2 waiting, 2 in flight", got)
	}
	for _, o := range []seq.Offset{0, 1} {
		if err := s.Finish(o, 1); err != nil {
			t.Fatal(err)
		}
	}
	if s.View().Floor() != 8 || s.View().Cursor() != 8 {
		t.Errorf("floor %d, cursor %d; want 8, 8", s.View().Floor(), s.View().Cursor())
	}
	if d := s.Take(now, 1, time.Minute, 9, 10, nil); len(d) != 2 || d[0].Offset != 8 {
		t.Errorf("delivered %v after the skip", d)
	}
}
