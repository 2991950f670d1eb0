package channel

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestKeysAreLearnedForConsumersWithRoom: messages that wait for consumers of another tag are ready,
// and other consumers may not take them.
func TestKeysAreLearnedForConsumersWithRoom(t *testing.T) {
	now := time.Unix(1000, 0)
	s := keyedState(keyorder.DefaultLimits(), "a", "b")
	for _, d := range s.Take(now, 1, time.Hour, 9, 2, nil) {
		s.Sorting().Sort(d.Offset, 2)
	}
	if from, some := s.Keyed().Unknown(1, 3); !some || from != 2 {
		t.Errorf("with all that is ready sorted: from %d, %v", from, some)
	}
	s.Keyed().Learn(2, []byte("c"))
	if _, some := s.Keyed().Unknown(1, 4); some {
		t.Error("more is to be learned though one may be taken")
	}
}

// TestSortingKeepsTheOrderOfAKey: a Take that was in progress when the channel began to order by key may
// sort a message that has to wait.
func TestSortingKeepsTheOrderOfAKey(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	s.Take(now, 1, time.Hour, 2, 3, nil)
	s.Operator().SetOrder(policy.ByKey)
	for o := range seq.Offset(3) {
		s.Keyed().Learn(o, []byte("a"))
	}
	s.Sorting().Sort(1, 2)
	if got := s.Sorting().Take(2, now, 2, time.Hour, 9, 3, nil); len(got) > 0 || blockedBy(&s.ledger) != 2 {
		t.Errorf("while 0 is in flight: %v, and %d wait", got, blockedBy(&s.ledger))
	}
	if err := s.Finish(0, 1); err != nil {
		t.Fatal(err)
	}
	if got := offsetsOf(s.Take(now, 2, time.Hour, 9, 3, nil)); !slices.Equal(got, []seq.Offset{1}) {
		t.Errorf("then: %v", got)
	}
}

// TestSkippedMessagesAreNotCounted: neither as delivered nor as finished. If it is not reported, it
// counts as not taken.
func TestSkippedMessagesAreNotCounted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := keyedState(keyorder.DefaultLimits(), "a", "a")
	for range 2 {
		if got := s.Take(now, 1, time.Hour, 9, 2, nil); !slices.Equal(got, []Delivery{{Offset: 0, Attempts: 1}}) {
			t.Fatalf("got %v", got)
		}
		if err := s.Holds().Skip(0, 1); err != nil {
			t.Fatal(err)
		}
		if c := s.View().Counts(2); c.Delivered != 0 || s.Holds().Len() != 1 || len(s.Take(now, 1, time.Hour, 9, 2, nil)) > 0 {
			t.Errorf("while a group is being sent: %+v", c)
		}
		s.Holds().Release(0)
	}
	s.Take(now, 1, time.Hour, 9, 2, nil)
	if err := s.Holds().Skip(0, 1); err != nil {
		t.Fatal(err)
	}
	s.Holds().Confirm(0)
	if c := s.View().Counts(2); c.Delivered != 0 || c.Finished != 0 || s.View().Floor() != 1 {
		t.Errorf("in the end: %+v, floor %d", c, s.View().Floor())
	}
	if err := s.Holds().Skip(0, 1); err == nil {
		t.Error("it is left out again")
	}
}
