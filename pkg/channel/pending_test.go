package channel

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestPendingMessagesAreSeenAndUnfinished(t *testing.T) {
	s := New(0, false)
	s.Take(moveTime, 1, time.Minute, 6, 9, nil)
	for _, o := range []seq.Offset{0, 1, 4} {
		if err := s.Finish(o, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Requeue(3, 1, moveTime, time.Hour); err != nil {
		t.Fatal(err)
	}
	got, all := pendingBelow(&s.ledger, 5, 2)
	if !all || len(got) != 2 || got[0] != (Pending{Offset: 2, State: InFlight, Attempts: 1}) ||
		got[1].Offset != 3 || got[1].State != Deferred || !got[1].Due.Equal(moveTime.Add(time.Hour)) {
		t.Errorf("%+v, %v", got, all)
	}
	if _, all := pendingBelow(&s.ledger, 5, 1); all {
		t.Error("two are not more than one")
	}
	if _, all := pendingBelow(&s.ledger, 7, 9); all {
		t.Error("a fresh one is not counted as such")
	}
	if err := s.Holds().Add(2, 1); err != nil {
		t.Fatal(err)
	}
	if _, all := pendingBelow(&s.ledger, 5, 9); all {
		t.Error("a held one is not counted as such")
	}
}
