package channel

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// handedOver returns the state of the next leader, whose clock has nothing in common with that of s.
func handedOver(s *State, order policy.Order, consumers []uint64, now, there time.Time) *State {
	const wall = 1e18
	next := Restore(s.View().Position(now, wall), order == policy.Strict, there.Add(-time.Second), wall)
	for _, k := range consumers {
		next.TakenBy(k).Inherit(s.TakenBy(k).Flights(now), there)
	}
	next.Operator().SetOrder(order)
	return next
}

// What is in flight stays so through a leader: with the same consumers, deadlines and attempts, and nothing of it
// is delivered to others, whatever the order.
func TestFlightsFollowTheLeader(t *testing.T) {
	const end, consumers, timeout = 40, 4, time.Minute
	rng := testrand.New(t)
	all := []uint64{1, 2, 3, 4}
	for range 300 {
		order := []policy.Order{policy.Unordered, policy.Strict, policy.ByKey}[rng.IntN(3)]
		now := time.Unix(1000, 0)
		s := New(0, false)
		s.Operator().SetOrder(order)
		randomLife(rng, s, order, all, end, &now)
		there := time.Unix(int64(rng.IntN(1e9)), 0)
		next := handedOver(s, order, all, now, there)
		if was, is := s.View().InFlight(), next.View().InFlight(); was != is {
			t.Fatalf("%v: %d in flight, then %d", order, was, is)
		}
		for _, k := range all {
			was, is := s.TakenBy(k).Flights(now), next.TakenBy(k).Flights(there)
			if !slices.Equal(was, is) {
				t.Fatalf("%v: consumer %d had %+v, and then %+v", order, k, was, is)
			}
		}
		var held []seq.Offset
		for _, k := range all {
			held = append(held, next.TakenBy(k).Offsets()...)
		}
		learn(next, end)
		for _, d := range next.Take(there, 9, timeout, end, end, nil) {
			if slices.Contains(held, d.Offset) {
				t.Fatalf("%v: %d is in flight, and delivered again", order, d.Offset)
			}
			for _, o := range held {
				if order == policy.Strict || order == policy.ByKey && keyOf(o) == keyOf(d.Offset) {
					t.Fatalf("%v: %d is delivered while %d is in flight", order, d.Offset, o)
				}
			}
		}
		for _, k := range all {
			for _, f := range next.TakenBy(k).Flights(there) {
				if err := next.Finish(f.Name, k); err != nil {
					t.Fatalf("%v: finish of %d: %v", order, f.Offset, err)
				}
			}
		}
	}
}

// keyOf is the key of a message in a channel ordered by key.
func keyOf(o seq.Offset) string { return []string{"a", "b", "c", "d", "e"}[o%5] }

func learn(s *State, end seq.Offset) {
	for {
		o, some := s.Keyed().Unknown(1<<20, end)
		if !some {
			return
		}
		s.Keyed().Learn(o, []byte(keyOf(o)))
	}
}

// randomLife delivers, finishes, requeues, touches and moves messages.
func randomLife(rng *rand.Rand, s *State, order policy.Order, consumers []uint64, end seq.Offset, now *time.Time) {
	moved := seq.Offset(1000)
	for range rng.IntN(60) {
		*now = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		k := consumers[rng.IntN(len(consumers))]
		mine := s.TakenBy(k).Offsets()
		learn(s, end)
		switch n := rng.IntN(6); {
		case n < 2 || len(mine) == 0:
			s.Take(*now, k, time.Minute, 1+rng.IntN(3), end, nil)
		case n == 2:
			_ = s.Finish(mine[rng.IntN(len(mine))], k)
		case n == 3:
			_ = s.Requeue(mine[rng.IntN(len(mine))], k, *now, 0)
		case n == 4:
			_ = s.Touch(mine[rng.IntN(len(mine))], k, *now, time.Minute, time.Hour)
		case order == policy.Unordered:
			moved++
			s.Arrivals().Move(Copy{From: s.View().Current(mine[0]), To: moved}, *now)
		}
	}
}

func TestInheritedFlightsTimeOutAndAreAnswered(t *testing.T) {
	now, there := time.Unix(1000, 0), time.Unix(5, 0)
	s := New(0, false)
	s.Take(now, 1, time.Minute, 4, 10, nil)
	if err := s.Finish(0, 1); err != nil {
		t.Fatal(err)
	}
	flights := s.TakenBy(1).Flights(now.Add(20 * time.Second))
	next := Restore(s.View().Position(now, 1), false, there, 1)
	unknown := Flight{Offset: 9, Name: 9, Attempts: 1, Rest: time.Minute}
	finished := Flight{Offset: 0, Name: 0, Attempts: 1, Rest: time.Minute}
	if n := next.TakenBy(7).Inherit(append(flights, unknown, finished), there); n != 3 {
		t.Fatalf("%d are in flight", n)
	}
	if err := next.Finish(1, 8); !errors.Is(err, errNotOwner) {
		t.Errorf("finish by another consumer: %v", err)
	}
	if err := errors.Join(next.Finish(1, 7), next.Touch(3, 7, there, time.Minute, 30*time.Second)); err != nil {
		t.Error(err)
	}
	for _, x := range []struct {
		after time.Duration
		want  int
	}{{9 * time.Second, 0}, {10 * time.Second, 1}, {39 * time.Second, 0}, {40 * time.Second, 1}} { // 3 was touched, but may not take longer than 30 s since its delivery
		if n := next.Expire(there.Add(x.after), nil); n != x.want {
			t.Errorf("after %v %d time out", x.after, n)
		}
	}
	if got := next.Take(there.Add(time.Minute), 9, time.Minute, 9, 4, nil); !slices.Equal(got, []Delivery{{Offset: 3, Attempts: 2}, {Offset: 2, Attempts: 2}}) {
		t.Errorf("then %+v are delivered", got)
	}
}
