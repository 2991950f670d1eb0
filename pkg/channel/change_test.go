package channel

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

func sampleChange() Change {
	return Change{Position: samplePosition(), Unmarked: []Range{{1009, 1010}, {1020, 1300}}}
}

const sampleChangeHex = "38" + samplePositionHex + "02" + "0901" + "0a9802"

func TestChangeIsGolden(t *testing.T) {
	data, err := sampleChange().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != sampleChangeHex {
		t.Errorf("encoded\n%s, want\n%s", got, sampleChangeHex)
	}
	var c Change
	if err := c.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleChange(), c); diff != "" {
		t.Error(diff)
	}
	for n := range data {
		if err := c.UnmarshalBinary(data[:n]); !errors.Is(err, errInvalid) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestBadChangesAreRefused(t *testing.T) {
	for name, c := range map[string]Change{
		"unmarked and deferred":  {Position{Deferred: DeferralsOf(Deferral{5, 0, 0, 1})}, []Range{{4, 6}}},
		"unmarked and attempted": {Position{Attempted: []Attempt{{5, 1}}}, []Range{{5, 6}}},
		"unmarked and finished":  {Position{Finished: []Range{{5, 9}}}, []Range{{2, 6}}},
		"touching ranges":        {Position{}, []Range{{2, 6}, {6, 7}}},
	} {
		data, err := c.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Change).UnmarshalBinary(data); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzChange(f *testing.F) {
	data, _ := sampleChange().AppendBinary(nil)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Change
		if c.UnmarshalBinary(data) != nil {
			return
		}
		if again, _ := c.AppendBinary(nil); !bytes.Equal(again, data) {
			t.Errorf("%x encodes as %x", data, again)
		}
		p := samplePosition()
		p.Apply(c)
		encoded, _ := p.AppendBinary(nil)
		if err := new(Position).UnmarshalBinary(encoded); err != nil {
			t.Errorf("after %x: %v", data, err)
		}
	})
}

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
	end := s.Cursor() + seq.Offset(r.IntN(5))
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
			s.Defer(s.Cursor()+seq.Offset(r.IntN(4)), *now, time.Second)
		}
	case 9:
		s.Expire(*now, nil)
	case 10:
		if o, ok = pick(); ok && s.Hold(o, 1) == nil {
			s.Confirm(o)
		}
	case 11:
		if r.IntN(20) == 0 {
			s.Skip(s.Floor()+seq.Offset(r.IntN(3)), s.Floor()+seq.Offset(r.IntN(9)))
		}
		if r.IntN(20) == 0 {
			FinishAny(s, s.Floor()+seq.Offset(r.IntN(9)))
		}
	case 12:
		if r.IntN(9) == 0 {
			Advance(s, DeferredIn(s, Window{Until: now.Add(time.Second)}))
		}
		if r.IntN(20) == 0 {
			Cancel(s, DeferredIn(s, Window{Until: now.Add(time.Second)}))
		}
		if r.IntN(20) == 0 {
			s.AdvanceTo(s.Floor() + seq.Offset(r.IntN(3)))
		}
	case 13:
		if r.IntN(200) == 0 {
			s.Seek(seq.Offset(r.IntN(int(s.Cursor()) + 1)))
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
		rec := NewRecorder(s)
		kept, pending := rec.Position(now, now.UnixNano(), 0), Changes{}
		for range 2000 {
			shuffle(r, s, &now, flying)
			if r.IntN(9) > 0 {
				continue
			}
			if c, ok := rec.Changes(now, now.UnixNano()); ok {
				parts++
				data, _ := c.AppendBinary(nil)
				var read Change
				if err := read.UnmarshalBinary(data); err != nil {
					t.Fatalf("%+v: %v", c, err)
				}
				pending.Add(read)
			} else {
				wholes++
				kept, pending = rec.Position(now, now.UnixNano(), 0), Changes{}
			}
			got, layered := kept, pending
			layered.pile = append([]Change(nil), pending.pile...)
			layered.ApplyTo(&got)
			if diff := cmp.Diff(s.Position(now, now.UnixNano()), got); diff != "" {
				t.Fatalf("the changes add up to another position: %s", diff)
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
	rec := NewRecorder(s)
	if p := rec.Position(now, now.UnixNano(), 1000); p.Deferred.Len() != 100_000 || !rec.Notes() {
		t.Fatal(p.Deferred.Len(), rec.Notes())
	}
	for _, d := range s.Take(now, 1, time.Minute, 10, 1<<20, nil) {
		_ = s.Requeue(d.Offset, 1, now, time.Hour)
	}
	c, ok := rec.Changes(now, now.UnixNano())
	if !ok || c.Deferred.Len() != 10 || c.Len() != 10 {
		t.Errorf("%v, %d entries", ok, c.Len())
	}
	if rec.Position(now, now.UnixNano(), 1<<20); rec.Notes() {
		t.Error("a position with fewer entries than asked for is recorded")
	}
}
