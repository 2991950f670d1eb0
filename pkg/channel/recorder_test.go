package channel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// shuffle makes a random step of a channel's consumers, publishers and operators.
func shuffle(r *rand.Rand, s *State, now *time.Time, flying map[seq.Offset]bool) {
	pick := func() (seq.Offset, bool) {
		for o := range flying {
			delete(flying, o)
			return o, true
		}
		return 0, false
	}
	*now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
	end := s.View().Cursor() + seq.Offset(r.IntN(5))
	switch o, ok := seq.Offset(0), false; r.IntN(14) {
	case 0, 1, 2:
		for _, d := range s.Take(*now, 1, time.Minute, r.IntN(8), end, nil) {
			flying[d.Offset] = true
		}
	case 3, 4:
		if o, ok = pick(); ok {
			_ = s.Finish(o, 1)
		}
	case 5, 6:
		if o, ok = pick(); ok {
			_ = s.Requeue(o, 1, *now, time.Duration(r.IntN(3000))*time.Millisecond)
		}
	case 7:
		if o, ok = pick(); ok {
			s.UndoTake(o)
		}
	case 8:
		if o, ok = pick(); ok {
			s.Defer(o, *now, time.Second)
		} else {
			s.Defer(s.View().Cursor()+seq.Offset(r.IntN(4)), *now, time.Second)
		}
	case 9:
		s.Expire(*now, nil)
	case 10:
		if o, ok = pick(); ok && s.Holds().Add(o, 1) == nil {
			s.Holds().Confirm(o)
		}
	case 11:
		if r.IntN(20) == 0 {
			s.Operator().Skip(s.View().Floor()+seq.Offset(r.IntN(3)), s.View().Floor()+seq.Offset(r.IntN(9)))
		}
		if r.IntN(20) == 0 {
			s.Operator().Finish(s.View().Floor() + seq.Offset(r.IntN(9)))
		}
	case 12:
		if r.IntN(9) == 0 {
			s.Operator().Advance(s.View().Deferrals().In(Window{Until: now.Add(time.Second)}))
		}
		if r.IntN(20) == 0 {
			s.Operator().Cancel(s.View().Deferrals().In(Window{Until: now.Add(time.Second)}))
		}
		if r.IntN(20) == 0 {
			s.AdvanceTo(s.View().Floor() + seq.Offset(r.IntN(3)))
		}
	case 13:
		if r.IntN(200) == 0 {
			s.Operator().Seek(seq.Offset(r.IntN(int(s.View().Cursor()) + 1)))
			clear(flying)
		}
	}
}

// TestChangesAddUpToThePosition compares, at random moments, a position built
// from changes with that of the state.
func TestChangesAddUpToThePosition(t *testing.T) {
	r := testrand.New(t)
	wholes, parts := 0, 0
	for range 30 {
		s, now, flying := New(5, false), time.Unix(1700000000, 0), map[seq.Offset]bool{}
		rec := s.Recorder()
		kept, pending := rec.Position(now, now.UnixNano(), 0), position.Changes{}
		single := kept
		for range 2000 {
			shuffle(r, s, &now, flying)
			if r.IntN(9) > 0 {
				continue
			}
			if c, ok := rec.Changes(now, now.UnixNano()); ok {
				parts++
				data, _ := c.AppendBinary(nil)
				var read position.Change
				if err := read.UnmarshalBinary(data); err != nil {
					t.Fatalf("%+v: %v", c, err)
				}
				pending.Add(read)
				single.Apply(read)
			} else {
				wholes++
				kept, pending = rec.Position(now, now.UnixNano(), 0), position.Changes{}
				single = kept
			}
			want := s.View().Position(now, now.UnixNano())
			if diff := cmp.Diff(want, single); diff != "" {
				t.Fatalf("the changes lead to another position: %s", diff)
			}
			if r.IntN(9) > 0 {
				continue
			}
			if pending.ApplyTo(&kept); !cmp.Equal(want, kept) {
				t.Fatalf("the changes add up to another position: %s", cmp.Diff(want, kept))
			}
		}
	}
	if parts < wholes {
		t.Errorf("%d changes, %d whole positions", parts, wholes)
	}
}

func TestFewChangesOfALargePositionAreSmall(t *testing.T) {
	s, now := New(0, false), time.Unix(1700000000, 0)
	for range 100 {
		for _, d := range s.Take(now, 1, time.Minute, 1000, 1<<20, nil) {
			if err := s.Requeue(d.Offset, 1, now, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	rec := s.Recorder()
	if p := rec.Position(now, now.UnixNano(), 1000); p.Deferred.Len() != 100_000 || !rec.Recording() {
		t.Fatal(p.Deferred.Len(), rec.Recording())
	}
	for _, d := range s.Take(now, 1, time.Minute, 10, 1<<20, nil) {
		_ = s.Requeue(d.Offset, 1, now, time.Hour)
	}
	c, ok := rec.Changes(now, now.UnixNano())
	if !ok || c.Deferred.Len() != 10 || c.Len() != 10 {
		t.Errorf("%v, %d entries", ok, c.Len())
	}
	if rec.Position(now, now.UnixNano(), 1<<20); rec.Recording() {
		t.Error("a position with fewer entries than asked for is recorded")
	}
}

// FuzzRestore: a restored State has the position that was stored.
func FuzzRestore(f *testing.F) {
	data, _ := position.Position{
		Floor:     1000,
		Finished:  []position.Range{{From: 1001, End: 1005}, {From: 1300, End: 100_000_000}},
		Deferred:  position.NewDeferralSet(position.Deferral{Offset: 1006, At: time.Unix(1700000000, 5).UnixNano(), Delay: 1000, Attempts: 3}, position.Deferral{Offset: 1008, At: math.MaxInt64, Delay: math.MaxInt64, Attempts: 1}),
		Attempted: []position.Attempt{{Offset: 1000, Attempts: 1}, {Offset: 1007, Attempts: seq.MaxAttempts}},
	}.AppendBinary(nil)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var p position.Position
		if p.UnmarshalBinary(data) != nil {
			return
		}
		now := time.Unix(0, 0)
		s := Restore(p, false, now, 0)
		if err := check(s); err != nil {
			t.Fatal(err)
		}
		var deferred []position.Deferral
		for d := range p.Deferred.All() {
			switch {
			case d.Delay > 0: // it bounds when it is due
				d.At = min(d.At, int64(d.Delay))
				d.Delay = subTime(d.At, int64(subTime(d.At, int64(d.Delay))))
				deferred = append(deferred, d)
			case d.Attempts == 0: // it was advanced
				deferred = append(deferred, position.Deferral{Offset: d.Offset})
			default: // so are those that were delivered; no encoder writes this form
				p.Attempted = append(p.Attempted, position.Attempt{Offset: d.Offset, Attempts: d.Attempts})
			}
		}
		p.Deferred = position.NewDeferralSet(deferred...)
		slices.SortFunc(p.Attempted, func(a, b position.Attempt) int { return int(a.Offset) - int(b.Offset) })
		if diff := cmp.Diff(p, s.View().Position(now, 0), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// first returns the first deferral of a set.
func first(s position.DeferralSet) (d position.Deferral) {
	for d = range s.All() {
		break
	}
	return d
}
