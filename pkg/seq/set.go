package seq

import "iter"

// Set is a set of offsets up to MaxOffset, made for "finished beyond the
// floor": long full stretches with a few holes. The zero value is empty and
// ready to use. A Set must not be copied after its first use, and is not safe
// for concurrent use.
//
// It is a tree of nodes with 64 children each. A child that holds all of its
// offsets is one bit in its parent, so that a full stretch costs next to
// nothing however long it is; what is partly full ends in bitmaps of 512
// offsets.
type Set struct {
	root *node
	n    uint64
}

// Len returns how many offsets are in the set.
func (s *Set) Len() uint64 { return s.n }

// Empty reports whether the set has no offsets.
func (s *Set) Empty() bool { return s.n == 0 }

// Add puts an offset into the set.
func (s *Set) Add(o Offset) { s.AddRange(o, o+1) }

// AddRange puts the offsets [from, end) into the set.
func (s *Set) AddRange(from, end Offset) {
	if from >= end {
		return
	}
	s.cover(uint64(end - 1))
	s.n += s.root.add(uint64(from), uint64(end))
}

// cover makes the tree high enough for an offset.
func (s *Set) cover(o uint64) {
	if s.root == nil {
		s.root = newNode(0)
	}
	for o>>s.root.bits() != 0 {
		up := newNode(s.root.height + 1)
		up.part, up.kids[0] = 1, s.root
		up.collapse(0)
		s.root = up
	}
}

// Contains reports whether an offset is in the set.
func (s *Set) Contains(o Offset) bool {
	if s.n == 0 || uint64(o)>>s.root.bits() != 0 {
		return false
	}
	n, at := s.root, uint64(o)
	for n.height > 0 {
		i := at >> n.kidBits()
		if n.full>>i&1 != 0 {
			return true
		}
		if n.part>>i&1 == 0 {
			return false
		}
		at -= i << n.kidBits()
		n = n.kids[i]
	}
	return n.words[at/64]>>(at%64)&1 != 0
}

// NextAbsent returns the first offset from here on that is not in the set.
func (s *Set) NextAbsent(from Offset) Offset {
	if s.n == 0 || uint64(from)>>s.root.bits() != 0 {
		return from
	}
	return Offset(s.root.nextAbsent(uint64(from)))
}

// nextPresent returns the first offset from here on that is in the set.
func (s *Set) nextPresent(from Offset) (Offset, bool) {
	if s.n == 0 || uint64(from)>>s.root.bits() != 0 {
		return 0, false
	}
	o := s.root.nextPresent(uint64(from))
	return Offset(o), o>>s.root.bits() == 0
}

// LenFrom returns how many offsets from here on are in the set. It takes a time that grows with the
// number of their stretches.
func (s *Set) LenFrom(from Offset) (n uint64) {
	for from, ok := s.nextPresent(from); ok; {
		end := s.NextAbsent(from)
		n += uint64(end - from)
		from, ok = s.nextPresent(end)
	}
	return n
}

// DropBelow removes the offsets below o from the set.
func (s *Set) DropBelow(o Offset) {
	switch {
	case s.n == 0:
	case uint64(o)>>s.root.bits() != 0:
		*s = Set{}
	default:
		s.n -= s.root.drop(uint64(o))
	}
}

// Ranges yields the stretches [from, end) of the set in order, as long as they
// can be. The set must not change meanwhile.
func (s *Set) Ranges() iter.Seq2[Offset, Offset] {
	return func(yield func(from, end Offset) bool) {
		for from, ok := s.nextPresent(0); ok; {
			end := s.NextAbsent(from)
			if !yield(from, end) {
				return
			}
			from, ok = s.nextPresent(end)
		}
	}
}
