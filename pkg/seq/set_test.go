package seq

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
)

// TestSetBehavesLikeABitmap compares a Set with a plain array of booleans, of
// which each stands for a stretch of offsets: stretches of one offset, of odd
// lengths, and of lengths that fill nodes of the tree.
func TestSetBehavesLikeABitmap(t *testing.T) {
	rng := testrand.New(t)
	const cells = 600
	for _, unit := range []Offset{1, 3, 64, 500, 512, 1 << 15, 1<<21 + 1, 1 << 33} {
		for range 20 {
			var s, low Set
			base := Offset(rng.IntN(5000))
			model := make([]bool, cells)
			for range 150 {
				from := rng.IntN(cells)
				to := min(cells, from+1+rng.IntN(1<<rng.IntN(9)))
				if rng.IntN(6) == 0 {
					from = min(from, to/3)
					s.DropBelow(base + Offset(from)*unit)
					clear(model[:from])
				} else {
					s.AddRange(base+Offset(from)*unit, base+Offset(to)*unit)
					for i := from; i < to; i++ {
						model[i] = true
					}
				}
				checkSet(t, &s, model, base, unit)
			}
			for from, end := range s.Ranges() {
				low.AddRange(from, end)
			}
			if !equal(&s, &low) || !equal(&low, &s) {
				t.Fatal("a set is not equal to its copy")
			}
			low.Add(base + cells*unit + 7)
			if equal(&s, &low) || equal(&low, &s) {
				t.Fatal("a set is equal to a larger one")
			}
		}
	}
}

// equal reports whether two sets hold the same offsets.
func equal(s, other *Set) bool {
	for from, end := range s.Ranges() {
		if other.NextAbsent(from) < end {
			return false
		}
	}
	return s.n == other.n
}

func checkSet(t *testing.T, s *Set, model []bool, base, unit Offset) {
	t.Helper()
	var n uint64
	next := base + Offset(len(model))*unit // first absent from here on
	for i, m := range slices.Backward(model) {
		at := base + Offset(i)*unit
		if m {
			n += uint64(unit)
		} else {
			next = at
		}
		if s.Contains(at) != m || s.Contains(at+unit-1) != m {
			t.Fatalf("%d x %d: contains %v, want %v", i, unit, s.Contains(at), m)
		}
		if got := s.NextAbsent(at); got != next {
			t.Fatalf("%d x %d: next absent %d, want %d", i, unit, got, next)
		}
	}
	upper := uint64(0)
	for _, m := range model[len(model)/2:] {
		if m {
			upper += uint64(unit)
		}
	}
	if got := s.LenFrom(base + Offset(len(model)/2)*unit); got != upper {
		t.Fatalf("%d in the upper half, want %d", got, upper)
	}
	if s.Len() != n || s.Empty() != (n == 0) {
		t.Fatalf("length %d, want %d", s.Len(), n)
	}
	last := Offset(0)
	for from, end := range s.Ranges() {
		if from >= end || last > 0 && from <= last || s.Contains(end) {
			t.Fatalf("range [%d,%d) after %d", from, end, last)
		}
		last, n = end, n-uint64(end-from)
	}
	if n != 0 {
		t.Fatalf("ranges miss %d offsets", n)
	}
}

func TestSetAtItsEdges(t *testing.T) {
	var s Set
	if s.Contains(0) || s.NextAbsent(5) != 5 || !equal(&s, &Set{}) {
		t.Error("the zero value is not empty")
	}
	s.DropBelow(9)
	s.AddRange(4, 4)
	s.AddRange(5, 4)
	if !s.Empty() {
		t.Error("an empty range adds something")
	}
	s.Add(MaxOffset)
	if !s.Contains(MaxOffset) || s.NextAbsent(MaxOffset) != MaxOffset+1 || s.Contains(MaxOffset-1) {
		t.Error("the last offset is not kept")
	}
	s.AddRange(0, MaxOffset)
	if s.Len() != uint64(MaxOffset)+1 || s.NextAbsent(0) != MaxOffset+1 {
		t.Error("not full")
	}
	if n := s.LenFrom(MaxOffset); n != 1 {
		t.Errorf("%d from the last offset on", n)
	}
	for from, end := range s.Ranges() {
		if from != 0 || end != MaxOffset+1 {
			t.Errorf("range [%d,%d)", from, end)
		}
		break
	}
	s.DropBelow(MaxOffset)
	if s.Len() != 1 || !s.Contains(MaxOffset) {
		t.Error("the last offset is dropped")
	}
	s.DropBelow(MaxOffset + 1)
	if !s.Empty() {
		t.Error("not empty")
	}
}

// nodes counts the nodes of the tree.
func (n *node) nodes() int {
	if n == nil {
		return 0
	}
	total := 1
	if n.kids != nil {
		for _, kid := range n.kids {
			total += kid.nodes()
		}
	}
	return total
}

func TestHoleAtTheBottomCostsNothing(t *testing.T) {
	var s Set
	for o := Offset(1); o < 10_000_000; o++ {
		s.Add(o)
	}
	s.AddRange(10_000_000, 100_000_000)
	if n := s.root.nodes(); n > 12 {
		t.Errorf("%d nodes for one stretch", n)
	}
}

// BenchmarkWindow finishes in random order within a window of 2,500.
func BenchmarkWindow(b *testing.B) {
	const window = 2500
	order := rand.New(rand.NewPCG(1, 1)).Perm(window)
	var s Set
	base := Offset(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == window {
			i, base = 0, base+window
		}
		s.Add(base + Offset(order[i]))
		s.DropBelow(s.NextAbsent(base))
	}
}

// BenchmarkScatteredHoles fills a million holes, 100 apart, in random order.
func BenchmarkScatteredHoles(b *testing.B) {
	const holes, apart = 1_000_000, 100
	var s Set
	order := rand.New(rand.NewPCG(1, 1)).Perm(holes)
	i := holes
	b.ReportAllocs()
	for b.Loop() {
		if i == holes {
			b.StopTimer()
			i, s = 0, Set{}
			for h := range Offset(holes) {
				s.AddRange(h*apart+1, (h+1)*apart)
			}
			b.StartTimer()
		}
		s.Add(Offset(order[i]) * apart)
		i++
	}
}
