package position

import (
	"cmp"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Change is the state of some offsets of a channel since an earlier Position: every offset that may
// have changed is in exactly one of its lists, or below its floor. Its slices are sorted by offset.
type Change struct {
	Position
	// Unmarked are offsets without an entry in a Position: the messages wait for their first
	// delivery, or were deferred by their publishers.
	Unmarked []Range
}

// Len returns the number of entries.
func (p *Position) Len() int { return len(p.Finished) + p.Deferred.Len() + len(p.Attempted) }

// Len returns the number of entries.
func (c *Change) Len() int { return c.Position.Len() + len(c.Unmarked) }

// Apply makes p the position after a change. The floor never decreases. It takes time
// proportional to both. The slices of the previous position are not modified.
func (p *Position) Apply(c Change) {
	whole := Change{Position: *p}
	whole.Then(c)
	*p = whole.Position
}

// Keep adds to p everything that is finished in old. It does not modify the slices of either.
func (p *Position) Keep(old *Position) {
	if old.Floor <= p.Floor && len(subtract(old.Finished, p.below())) == 0 {
		return
	}
	p.Apply(Change{Position: Position{Floor: old.Floor, Finished: old.Finished}})
}

// below returns all finished offsets as ranges.
func (p *Position) below() []Range {
	all := make([]Range, 0, 1+len(p.Finished))
	return append(append(all, Range{0, p.Floor}), p.Finished...)
}

// Then makes c the combination of c and next, in this order. It takes time proportional to both
// and does not modify the slices of c.
func (c *Change) Then(next Change) {
	floor := max(c.Floor, next.Floor)
	named := next.offsets()
	c.Finished = union(subtract(c.Finished, named), next.Finished, floor)
	c.Unmarked = union(subtract(c.Unmarked, named), next.Unmarked, floor)
	c.Deferred = c.Deferred.overlay(next.Deferred, named, floor)
	c.Attempted = overlay(c.Attempted, next.Attempted, named, floor, func(a Attempt) seq.Offset { return a.Offset })
	c.Floor = floor
	c.Absorb()
}

// offsets returns all offsets that the change names, as ranges that do not touch.
func (c *Change) offsets() []Range {
	all := make([]Range, 0, c.Len())
	all = append(append(all, c.Finished...), c.Unmarked...)
	for d := range c.Deferred.All() {
		all = append(all, Range{d.Offset, d.Offset + 1})
	}
	for _, a := range c.Attempted {
		all = append(all, Range{a.Offset, a.Offset + 1})
	}
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	return joined(all)
}

// joined merges sorted ranges that touch or overlap, in place.
func joined(all []Range) []Range {
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && r.From <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
			continue
		}
		out = append(out, r)
	}
	return out
}

// subtract returns the parts of sorted ranges that are in none of others, which are sorted and do
// not touch.
func subtract(ranges, others []Range) []Range {
	if len(ranges) == 0 {
		return nil
	}
	out := make([]Range, 0, len(ranges)+len(others))
	for _, r := range ranges {
		for len(others) > 0 && others[0].End <= r.From {
			others = others[1:]
		}
		for i := 0; i < len(others) && others[i].From < r.End; i++ {
			if others[i].From > r.From {
				out = append(out, Range{r.From, others[i].From})
			}
			r.From = max(r.From, others[i].End)
		}
		if r.From < r.End {
			out = append(out, r)
		}
	}
	return out
}

// union returns the offsets at or above floor that are in either of two lists of sorted ranges, or
// nil if there are none.
func union(a, b []Range, floor seq.Offset) []Range {
	var all []Range
	if len(a)+len(b) > 0 {
		all = make([]Range, 0, len(a)+len(b))
	}
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].From < a[0].From {
			from = &b
		}
		r := (*from)[0]
		*from = (*from)[1:]
		if r.From = max(r.From, floor); r.From < r.End {
			all = append(all, r)
		}
	}
	if all = joined(all); len(all) == 0 {
		return nil
	}
	return all
}

// overlay returns the entries at or above floor of a sorted list that are not in named, and those
// of next, sorted; nil if there are none.
func overlay[E any](list, next []E, named []Range, floor seq.Offset, at func(E) seq.Offset) []E {
	var out []E
	if len(list)+len(next) > 0 {
		out = make([]E, 0, len(list)+len(next))
	}
	for _, e := range list {
		o := at(e)
		for len(next) > 0 && at(next[0]) < o {
			out = appendFrom(out, next[0], at(next[0]) >= floor)
			next = next[1:]
		}
		for len(named) > 0 && named[0].End <= o {
			named = named[1:]
		}
		hidden := len(named) > 0 && named[0].From <= o
		out = appendFrom(out, e, !hidden && o >= floor)
	}
	for _, e := range next {
		out = appendFrom(out, e, at(e) >= floor)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func appendFrom[E any](out []E, e E, kept bool) []E {
	if !kept {
		return out
	}
	return append(out, e)
}

// Changes combines several changes of one channel, in order. Adding one takes time logarithmic
// in their number.
type Changes struct{ pile []Change }

// Add appends a change and retains its slices.
func (c *Changes) Add(next Change) {
	c.pile = append(c.pile, next)
	for n := len(c.pile); n > 1 && c.pile[n-2].Len() <= 2*c.pile[n-1].Len(); n = len(c.pile) {
		c.pile[n-2].Then(c.pile[n-1])
		c.pile = c.pile[:n-1]
	}
}

// Len returns the total number of entries.
func (c *Changes) Len() int {
	n := 0
	for i := range c.pile {
		n += c.pile[i].Len()
	}
	return n
}

// ApplyTo applies all changes to p, and clears them.
func (c *Changes) ApplyTo(p *Position) {
	for n := len(c.pile); n > 1; n = len(c.pile) {
		c.pile[n-2].Then(c.pile[n-1])
		c.pile = c.pile[:n-1]
	}
	if len(c.pile) == 1 {
		p.Apply(c.pile[0])
	}
	c.pile = nil
}
