package repair

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestEachDamagedRangeHasItsOwnTimeout has ranges that no replica holds, that stay unanswered, that
// fail, and that are too large, and finds others later.
func TestEachDamagedRangeHasItsOwnTimeout(t *testing.T) {
	t0 := time.Unix(1000, 0)
	a, b := Extent{3, 5}, Extent{7, 8}
	for name, c := range map[string]struct {
		note  func(s *Sought, now time.Time)
		waits map[time.Duration]bool // whether consumers wait for a, at this time after it was requested
		again map[time.Duration]bool // whether it is requested
	}{
		"no replica has it": {
			func(s *Sought, now time.Time) { s.Denied(a, now) },
			map[time.Duration]bool{4 * time.Second: true, 5 * time.Second: false},
			map[time.Duration]bool{5 * time.Second: true},
		},
		"some do not answer": {
			func(s *Sought, now time.Time) { s.Overdue(now) },
			map[time.Duration]bool{59 * time.Second: true, time.Minute: false},
			map[time.Duration]bool{time.Minute: true},
		},
		"it does not fit": {
			func(s *Sought, now time.Time) { s.Failed(a, now, true) },
			map[time.Duration]bool{4 * time.Second: true, 5 * time.Second: false},
			map[time.Duration]bool{time.Second: true, 5 * time.Second: false, 15 * time.Minute: false},
		},
		"the disk is full": {
			func(s *Sought, now time.Time) { s.Failed(a, now, false) },
			map[time.Duration]bool{59 * time.Second: true, time.Minute: false},
			map[time.Duration]bool{30 * time.Second: true, time.Minute: false},
		},
		"it is too large": {
			func(s *Sought, _ time.Time) { s.Large(a) }, map[time.Duration]bool{0: false}, map[time.Duration]bool{0: false},
		},
	} {
		for after, want := range c.waits {
			s := NewSought()
			if !s.Want(a) || s.Want(a) || !s.Waits(a) {
				t.Fatalf("%s: it is known before it was met, or no consumer waits", name)
			}
			s.Due([]Extent{a}, t0)
			c.note(s, t0.Add(after))
			if got := s.Waits(a); got != want {
				t.Errorf("%s: after %v waits %t", name, after, got)
			}
			if got := s.Passed(); len(got) == 1 == want || len(s.Passed()) > 0 {
				t.Errorf("%s: after %v passed %v, and again %v", name, after, got, s.Passed())
			}
			// Consumers wait for damage found later, whatever the outcome of this range.
			if !s.Waits(b) || !s.Want(b) || !s.Waits(b) {
				t.Errorf("%s: later damage is passed before anybody was asked", name)
			}
			s.Due([]Extent{a, b}, t0.Add(after))
			s.Overdue(t0.Add(after + 59*time.Second))
			if !s.Waits(b) {
				t.Errorf("%s: later damage is passed after 59 s", name)
			}
		}
		for after, want := range c.again {
			s := NewSought()
			s.Due([]Extent{a}, t0)
			c.note(s, t0.Add(after))
			if got := slices.Contains(s.Due([]Extent{a}, t0.Add(after)), a); got != want {
				t.Errorf("%s: after %v asked for again %t", name, after, got)
			}
		}
	}
}

// TestPostponedRangeGetsItsTimeoutLater also covers a range that waits for its turn.
func TestPostponedRangeGetsItsTimeoutLater(t *testing.T) {
	s, t0, a := NewSought(), time.Unix(1000, 0), Extent{3, 5}
	s.Want(a)
	s.Overdue(t0.Add(time.Hour))
	s.Due([]Extent{a}, t0)
	s.Postpone(a)
	s.Overdue(t0.Add(time.Hour))
	s.Denied(a, t0.Add(time.Hour))
	if !s.Waits(a) {
		t.Error("it is passed before it was asked for")
	}
}

// TestPartsOfAbandonedRangesAreSkipped: readers report damage from their own position on.
func TestPartsOfAbandonedRangesAreSkipped(t *testing.T) {
	s, t0 := NewSought(), time.Unix(1000, 0)
	s.Due([]Extent{{3, 5}, {5, 9}, {12, 13}}, t0)
	s.Overdue(t0.Add(time.Minute))
	s.Want(Extent{20, 21})
	for e, want := range map[Extent]bool{
		{3, 5}: false, {4, 5}: false, {4, 7}: false, {3, 9}: false, {2, 5}: true, {8, 10}: true, {5, 5}: false, {9, 13}: true, {20, 21}: true, {20, 20}: true,
	} {
		if got := s.Waits(e); got != want {
			t.Errorf("%v waits %t", e, got)
		}
	}
	if s.Want(Extent{6, 8}); s.Waits(Extent{6, 8}) {
		t.Error("a part that was met by itself waits, though all around it is given up")
	}
	s.Repaired([]Extent{{1, 9}}, t0)
	if !s.Waits(Extent{3, 5}) || s.Waits(Extent{12, 13}) {
		t.Error("what is repaired is given up, or something else is forgotten")
	}
}

// copies are the nodes that are asked for parts of a log.
type copies struct {
	asked map[int]int
	holds map[int]func(first seq.Offset) bool // nil: the node does not respond
	log   *commitlog.Log
}

func (c *copies) ask(id int, w Wanted) (Answer, error) {
	c.asked[id]++
	if c.holds[id] == nil {
		return Answer{}, errors.New("no answer")
	}
	a := Answer{}
	for w.From < w.Next && c.holds[id](w.From) && len(a.Bytes) < 1000 {
		a.Bytes, a.Whole = append(a.Bytes, InLog(c.log).Batch(w.From)...), true
		w.From++
	}
	return a, nil
}

// TestRangeComesFromSeveralReplicas has replicas that hold parts of the range, one that does not
// respond, and little memory.
func TestRangeComesFromSeveralReplicas(t *testing.T) {
	log, _, err := commitlog.Open(vfs.NewMem(), "log", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	w, err := log.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b := new(commitlog.Builder)
		b.Next(200)
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	const batch = 264 // about
	all := func(seq.Offset) bool { return true }
	but := func(lost ...seq.Offset) func(seq.Offset) bool {
		return func(o seq.Offset) bool { return !slices.Contains(lost, o) }
	}
	for name, c := range map[string]struct {
		b, c func(seq.Offset) bool
		room int
		used int
		want Finding
		most int // requests to b
	}{
		"one has all":                {all, all, 1 << 20, 0, Held, 9},
		"the other has all":          {but(0), all, 1 << 20, 0, Held, 9},
		"each has lost something":    {but(15), but(12), 1 << 20, 0, Held, 99},
		"both have lost the same":    {but(12), but(12), 1 << 20, 0, Nowhere, 99},
		"one is silent":              {nil, all, 1 << 20, 0, Held, 1},
		"one is silent, one lacks":   {nil, but(12), 1 << 20, 0, Open, 1},
		"it is too large":            {all, all, 5 * batch, 0, TooLarge, 99},
		"others have taken the room": {all, all, 12 * batch, 5 * batch, Later, 99},
	} {
		from := &copies{asked: map[int]int{}, holds: map[int]func(seq.Offset) bool{0: c.b, 1: c.c}, log: log}
		g := Gathering{Nodes: 2, Ask: from.ask, Room: c.room, used: c.used}
		raw, got := g.Gather(Wanted{From: 10, Next: 20, Behind: 20, Last: 1})
		if got != c.want || from.asked[0] > c.most {
			t.Errorf("%s: %d, after %v", name, got, from.asked)
		}
		if got == Held {
			next := seq.Offset(10)
			for rest := raw; len(rest) > 0; {
				b, err := commitlog.Decode(rest)
				if err != nil || b.First() != next {
					t.Fatalf("%s: %v at %d", name, err, next)
				}
				next, rest = b.End(), rest[b.Size():]
			}
			if next != 20 || g.used != c.used+len(raw) {
				t.Errorf("%s: batches up to %d, %d bytes are in use", name, next, g.used)
			}
		}
		if c.b == nil {
			if g.Gather(Wanted{From: 3, Next: 4, Behind: 4, Last: 1}); from.asked[0] != 1 {
				t.Errorf("%s: it is asked %d times", name, from.asked[0])
			}
		}
	}
	if _, got := (&Gathering{}).Gather(Wanted{From: 3, Next: 4, Behind: 4}); got != Open {
		t.Errorf("without a proof: %d", got)
	}
}

// TestRepeatedlyDamagedRangeIsAbandoned uses a disk that damages a range after each repair.
func TestRepeatedlyDamagedRangeIsAbandoned(t *testing.T) {
	s, t0, a := NewSought(), time.Unix(1000, 0), Extent{3, 5}
	for range repairsMost {
		s.Want(a)
		if due := s.Due([]Extent{a}, t0); len(due) != 1 || !s.Waits(a) {
			t.Fatalf("%v is due, waited for %t", due, s.Waits(a))
		}
		s.Repaired([]Extent{a}, t0)
	}
	s.Want(a)
	if due := s.Due([]Extent{a}, t0.Add(failedPause-1)); len(due) > 0 || s.Waits(a) {
		t.Errorf("%v is due, waited for %t", due, s.Waits(a))
	}
	if due := s.Due([]Extent{a}, t0.Add(failedPause)); len(due) != 1 {
		t.Error("it is never asked for again")
	}
}

// TestPartOfWiderDamageIsNotAbandoned finds two parts of one damaged range separately. In a later round the repair
// of each is refused, because the damage is wider: the whole is requested once, and no consumer skips a part.
func TestPartOfWiderDamageIsNotAbandoned(t *testing.T) {
	s, t0 := NewSought(), time.Unix(1000, 0)
	a, b, whole := Extent{6, 7}, Extent{7, 8}, Extent{6, 8}
	s.Due([]Extent{a, b}, t0)
	later := t0.Add(30 * time.Second)
	for _, e := range []Extent{a, b} {
		if s.Refused(e, &WiderError{From: whole.From, Next: whole.Next}, later) {
			t.Errorf("%v has failed", e)
		}
	}
	if len(s.More()) != 1 || len(s.Passed()) > 0 || !s.Waits(a) || !s.Waits(b) {
		t.Errorf("%d requests at once, and consumers wait for the parts: %t, %t", len(s.More()), s.Waits(a), s.Waits(b))
	}
	if due := s.Due([]Extent{whole}, later); !slices.Equal(due, []Extent{whole}) {
		t.Errorf("%v is requested", due)
	}
	for _, refused := range []*WiderError{{From: 6, Next: 8}, {From: 7, Next: 8}} { // itself, and a part
		if !s.Refused(whole, refused, later) {
			t.Errorf("refused for %v: has not failed", refused)
		}
	}
	if s.Refused(whole, ErrNoFit, later.Add(time.Minute)); s.Waits(whole) {
		t.Error("consumers wait for what does not fit")
	}
}
