package channel

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestHeldMessageDelaysNext: until the other replicas know of it, an
// ordered channel neither continues nor goes back.
func TestHeldMessageDelaysNext(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, true)
	s.Take(now, 1, time.Minute, 9, 5, nil)
	if err := s.Holds().Add(0, 2); !errors.Is(err, errNotOwner) {
		t.Errorf("another consumer's answer: %v", err)
	}
	if err := s.Holds().Add(0, 1); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"finish":  s.Finish(0, 1),
		"hold":    s.Holds().Add(0, 1),
		"requeue": s.Requeue(0, 1, now, 0),
		"touch":   s.Touch(0, 1, now, time.Minute, time.Hour),
	} {
		if !errors.Is(err, failure.NotInFlight) {
			t.Errorf("%s of a held message: %v", name, err)
		}
	}
	if n := s.Expire(now.Add(time.Hour), nil) + s.TakenBy(1).Disconnect(); n != 0 {
		t.Errorf("%d messages were let go", n)
	}
	if _, ok := s.NextEvent(); ok {
		t.Error("a held message has a deadline")
	}
	if got := s.Take(now, 3, time.Minute, 9, 5, nil); len(got) != 0 || s.TakenBy(1).Len() != 0 || s.View().Counts(5).InFlight != 1 {
		t.Fatalf("took %v; %d in flight with its consumer, %+v", got, s.TakenBy(1).Len(), s.View().Counts(5))
	}
	if got := s.View().Position(time.Unix(1, 0), 1e9); got.Floor != 1 || len(got.Attempted) != 0 || s.View().Floor() != 0 {
		t.Errorf("position %+v, floor %d", got, s.View().Floor())
	}
	s.Holds().Release(0)
	if got := s.Take(now, 3, time.Minute, 9, 5, nil); !slices.Equal(got, []Delivery{{Offset: 0, Attempts: 2}}) {
		t.Fatalf("took %v after the release", got)
	}
	if err := s.Holds().Add(0, 3); err != nil {
		t.Fatal(err)
	}
	s.Holds().Confirm(0)
	s.Holds().Confirm(0)
	if got := s.Take(now, 3, time.Minute, 9, 5, nil); !slices.Equal(got, []Delivery{{Offset: 1, Attempts: 1}}) || s.Holds().Len() != 0 || s.View().Counts(5).Finished != 1 {
		t.Fatalf("took %v after it was confirmed, %+v", got, s.View().Counts(5))
	}
}

// naive is a position as a list of the state of each offset.
type naive map[seq.Offset]byte

const (
	naiveFinished = iota + 1
	naiveDeferred
	naiveAttempted
)

func (n naive) position(floor seq.Offset) position.Position {
	for n[floor] == naiveFinished {
		floor++
	}
	p := position.Position{Floor: floor}
	var later []position.Deferral
	for o := floor; o < floor+100; o++ {
		switch n[o] {
		case naiveFinished:
			if last := len(p.Finished) - 1; last >= 0 && p.Finished[last].End == o {
				p.Finished[last].End++
			} else {
				p.Finished = append(p.Finished, position.Range{From: o, End: o + 1})
			}
		case naiveDeferred:
			later = append(later, position.Deferral{Offset: o, At: 7, Delay: 7, Attempts: 1})
		case naiveAttempted:
			p.Attempted = append(p.Attempted, position.Attempt{Offset: o, Attempts: 1})
		}
	}
	p.Deferred = position.NewDeferralSet(later...)
	return p
}

func TestPositionMatchesList(t *testing.T) {
	rng := testrand.New(t)
	for range 300 {
		n, floor := naive{}, seq.Offset(10)
		for o := floor; o < floor+40; o++ {
			n[o] = byte(rng.IntN(4))
		}
		p := n.position(floor)
		for range 60 {
			o := seq.Offset(5 + rng.IntN(50))
			if rng.IntN(10) == 0 {
				p.AdvanceTo(o)
				for below := floor; below < o; below++ {
					n[below] = naiveFinished
				}
			} else {
				p.Finish(o)
				n[o] = naiveFinished
			}
			want := n.position(floor)
			if diff := cmp.Diff(want, p, cmp.Comparer(func(a, b []position.Attempt) bool { return slices.Equal(a, b) })); diff != "" {
				t.Fatalf("after %d: %s", o, diff)
			}
			if end := want.Floor + seq.Offset(rng.IntN(40)); want.Reaches(end) == cmp.Equal(want, want.Below(end)) {
				t.Fatalf("%+v reaches %d: %v", want, end, want.Reaches(end))
			}
			data, _ := p.AppendBinary(nil)
			if err := new(position.Position).UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}
