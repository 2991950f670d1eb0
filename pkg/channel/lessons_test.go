package channel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Faults of similar brokers. Each can lose, repeat or block messages.

// drain finishes all messages below end that are ready within a day, and
// returns their offsets in the order of delivery.
func drain(t *testing.T, s *State, now time.Time, end seq.Offset) (got []seq.Offset) {
	t.Helper()
	const drainer = 99
	for {
		out := s.Take(now, drainer, time.Minute, 7, end, nil)
		for _, d := range out {
			got = append(got, d.Offset)
			if err := s.Finish(d.Offset, drainer); err != nil {
				t.Fatal(err)
			}
		}
		if err := check(s); err != nil {
			t.Fatal(err)
		}
		if len(out) > 0 {
			continue
		}
		next, ok := s.NextEvent()
		if !ok || next.After(time.Unix(100_000, 0)) {
			return got
		}
		now = next
		s.Expire(now, nil)
	}
}

func sequence(from, end seq.Offset) (out []seq.Offset) {
	for o := from; o < end; o++ {
		out = append(out, o)
	}
	return out
}

// A channel that was moved, emptied or paused continues with the next message,
// whatever messages were in flight or deferred.
func TestChannelContinuesAfterEveryIntervention(t *testing.T) {
	now := time.Unix(1000, 0)
	const end = 20
	interventions := map[string]struct {
		do    func(*State)
		first seq.Offset // that is delivered again
	}{
		"seek back":    {func(s *State) { s.Operator().Seek(2) }, 2},
		"seek forward": {func(s *State) { s.Operator().Seek(15) }, 15},
		"seek to end":  {func(s *State) { s.Operator().Seek(end) }, end},
		"empty":        {func(s *State) { s.Operator().Seek(end) }, end},
		"pause":        {func(s *State) { s.Paused = true; s.Take(now, 1, time.Minute, 9, end, nil); s.Paused = false }, 5},
		"retention":    {func(s *State) { s.AdvanceTo(12) }, 12},
	}
	situations := map[string]func(*State){
		"idle":      func(*State) {},
		"in flight": func(s *State) { s.Take(now, 1, time.Hour, 4, end, nil) },
		"timed out": func(s *State) {
			s.Take(now, 1, time.Second, 4, end, nil)
			s.Expire(now.Add(time.Second), nil)
		},
		"requeued": func(s *State) {
			for _, d := range s.Take(now, 1, time.Hour, 4, end, nil) {
				_ = s.Requeue(d.Offset, 1, now, time.Hour)
			}
		},
		"published with a delay": func(s *State) { s.Defer(13, now, time.Hour) },
		"delay is found": func(s *State) {
			for _, d := range s.Take(now, 1, time.Hour, 4, end, nil) {
				s.Defer(d.Offset, now, time.Hour)
			}
		},
	}
	for name, intervention := range interventions {
		for situation, prepare := range situations {
			for _, ordered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/ordered=%v", name, situation, ordered), func(t *testing.T) {
					s := New(5, ordered)
					prepare(s)
					intervention.do(s)
					got := drain(t, s, now, end+3)
					if ordered && !slices.IsSorted(got) {
						t.Errorf("out of order: %v", got)
					}
					slices.Sort(got)
					if want := sequence(intervention.first, end+3); !slices.Equal(got, want) {
						t.Errorf("delivered %v, want %v", got, want)
					}
					if s.View().Floor() != end+3 {
						t.Errorf("floor %d", s.View().Floor())
					}
				})
			}
		}
	}
}

// Out-of-order finishes and seeks back, at random: every message after the
// offset is delivered again.
func TestSeekBackRedeliversAll(t *testing.T) {
	rng := testrand.New(t)
	now := time.Unix(1000, 0)
	for range 200 {
		s := New(0, rng.IntN(2) == 0)
		for range 5 {
			out := s.Take(now, 1, time.Hour, 1+rng.IntN(300), 400, nil)
			rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
			for _, d := range out[:rng.IntN(len(out)+1)] {
				if err := s.Finish(d.Offset, 1); err != nil {
					t.Fatal(err)
				}
			}
			s.Operator().Seek(seq.Offset(rng.IntN(400)))
			// A delivery from before the seek is no longer in flight.
			for _, d := range out {
				if err := s.Finish(d.Offset, 1); !errors.Is(err, failure.NotInFlight) {
					t.Fatal(err)
				}
			}
		}
		from := s.View().Floor()
		got := drain(t, s, now, 400)
		slices.Sort(got)
		if !slices.Equal(got, sequence(from, 400)) {
			t.Fatalf("from %d: %v", from, got)
		}
	}
}

// A restart with one message unfinished at the bottom delivers that one again,
// not the whole window.
func TestRestartDeliversOnlyTheUnfinished(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	for _, d := range s.Take(now, 1, time.Hour, 500, 500, nil)[1:] {
		if err := s.Finish(d.Offset, 1); err != nil {
			t.Fatal(err)
		}
	}
	s = Restore(s.View().Position(now, now.UnixNano()), false, now, now.UnixNano())
	if got := drain(t, s, now, 500); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("delivered %v", got)
	}
}

// A message that is deferred repeatedly, with restarts and duplicate reports,
// is due once each time, and no deferral remains at the end.
func TestDeferredIsDueOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	for round := range 10 {
		out := s.Take(now, 1, time.Minute, 5, 1, nil)
		if len(out) != 1 || int(out[0].Attempts) != round+1 {
			t.Fatalf("round %d: %v", round, out)
		}
		if err := s.Requeue(0, 1, now, time.Hour); err != nil {
			t.Fatal(err)
		}
		s = Restore(s.View().Position(now, now.UnixNano()), false, now, now.UnixNano())
		s.Defer(0, now, time.Second) // the time in the log, long past
		if c := s.View().Counts(1); c.Deferred != 1 || c.Depth != 0 {
			t.Fatalf("round %d: %+v", round, c)
		}
		now = now.Add(time.Hour)
	}
	if got := drain(t, s, now, 1); len(got) != 1 {
		t.Fatalf("delivered %v", got)
	}
	if c := s.View().Counts(1); c.Deferred+c.InFlight+c.Depth != 0 {
		t.Fatalf("left: %+v", c)
	}
}

// A message that timed out with one consumer and is in flight with another
// belongs only to the second one.
func TestRedeliveredMessageHasOneOwner(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	s.Take(now, 1, time.Second, 1, 1, nil)
	now = now.Add(time.Second)
	s.Expire(now, nil)
	s.Take(now, 2, time.Minute, 1, 1, nil)
	for _, err := range []error{
		s.Finish(0, 1), s.Requeue(0, 1, now, time.Hour), s.Touch(0, 1, now, time.Hour, time.Hour),
	} {
		if !errors.Is(err, errNotOwner) || err.Error() != "client does not own message" {
			t.Error(err)
		}
	}
	if err := s.Requeue(0, 2, now, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		s.Finish(0, 2), s.Requeue(0, 2, now, 0), s.Touch(0, 2, now, time.Hour, time.Hour),
	} {
		if !errors.Is(err, failure.NotInFlight) || err.Error() != "ID not in flight" {
			t.Error(err)
		}
	}
}

// If a message was taken before a seek and is answered, returned, dropped or
// deferred after it, nothing changes.
func TestSeekWhileTakenLosesNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	s := New(0, false)
	for round := range 1000 {
		taken := s.Take(now, 1, time.Hour, 1+rng.IntN(9), 50, nil)
		target := seq.Offset(rng.IntN(50))
		s.Operator().Seek(target)
		for _, d := range taken {
			switch rng.IntN(3) {
			case 0:
				s.UndoTake(d.Offset)
			case 1:
				s.Drop(d.Offset)
			case 2:
				_ = s.Finish(d.Offset, 1)
			}
		}
		if s.View().Floor() != target || s.View().Cursor() != target {
			t.Fatalf("round %d: floor %d, cursor %d, want %d", round, s.View().Floor(), s.View().Cursor(), target)
		}
		if out := s.Take(now, 1, time.Hour, 1, 50, nil); len(out) != 1 || out[0].Offset != target {
			t.Fatalf("round %d: %v, want %d", round, out, target)
		}
	}
}

func TestAttemptsSaturate(t *testing.T) {
	s, now := New(0, false), time.Unix(1000, 0)
	for n := 1; n <= seq.MaxAttempts+10; n++ {
		out := s.Take(now, 1, time.Minute, 1, 1, nil)
		if want := min(n, seq.MaxAttempts); int(out[0].Attempts) != want {
			t.Fatalf("%d attempts, want %d", out[0].Attempts, want)
		}
		if err := s.Requeue(0, 1, now, 0); err != nil {
			t.Fatal(err)
		}
	}
}
