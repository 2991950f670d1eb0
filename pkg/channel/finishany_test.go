package channel

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

func TestFinishAnyFinishesInEveryState(t *testing.T) {
	now := time.Unix(1, 0)
	s := New(0, false)
	s.Take(now, 1, time.Minute, 2, 10, nil) // 0 and 1
	s.Defer(6, now, time.Hour)
	s.Operator().Finish(3)
	for o, want := range map[int]MessageState{1: InFlight, 4: Ready, 6: Deferred, 3: Finished} {
		if was := s.Operator().Finish(seq.Offset(o)); was != want {
			t.Errorf("%d was %v, want %v", o, was, want)
		}
		if is, _ := s.View().StateOf(seq.Offset(o)); is != Finished {
			t.Errorf("%d is %v", o, is)
		}
	}
	if err := s.Finish(1, 1); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("the consumer that had it: %v", err)
	}
	if got := s.View().Counts(10); got.InFlight != 1 || got.Deferred != 0 || got.Depth != 5 || s.View().Floor() != 0 {
		t.Errorf("%+v, floor %d", got, s.View().Floor())
	}
	if err := s.Finish(0, 1); err != nil || s.View().Floor() != 2 {
		t.Errorf("floor %d, %v", s.View().Floor(), err)
	}
	if d := s.Take(now, 1, time.Minute, 9, 10, nil); len(d) != 5 || d[0].Offset != 2 || d[1].Offset != 5 {
		t.Errorf("delivered %v", d)
	}
}

// FinishAny leaves a message alone that an ordered channel's consumer is
// finishing.
func TestFinishAnyLeavesHeldMessages(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	s.Take(now, 1, time.Minute, 1, 5, nil)
	if err := s.Holds().Add(0, 1); err != nil {
		t.Fatal(err)
	}
	if was := s.Operator().Finish(0); was != InFlight || s.Holds().Len() != 1 || s.View().Floor() != 0 {
		t.Errorf("was %v, %d held, floor %d", was, s.Holds().Len(), s.View().Floor())
	}
	s.Holds().Confirm(0)
	if s.View().Floor() != 1 {
		t.Errorf("floor %d", s.View().Floor())
	}
}
