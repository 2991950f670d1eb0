package position

import (
	"iter"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// DeferralSet is a set of deferred messages by offset, packed in pages: about 11 bytes each if many
// are deferred by about the same time. A DeferralSet is immutable: derived sets share unchanged
// pages. The zero value is empty.
type DeferralSet struct {
	groups [][]page // no group is empty; a change copies one of them
	n      int
}

// groupPages is the maximum number of pages in a group.
const groupPages = 64

// eachPage yields the pages in order.
func (s *DeferralSet) eachPage() iter.Seq[*page] {
	return func(yield func(*page) bool) {
		for _, g := range s.groups {
			for i := range g {
				if !yield(&g[i]) {
					return
				}
			}
		}
	}
}

// pageCount returns the number of pages.
func (s *DeferralSet) pageCount() (n int) {
	for _, g := range s.groups {
		n += len(g)
	}
	return n
}

// NewDeferralSet returns the set of the given deferrals, which are sorted by offset.
func NewDeferralSet(list ...Deferral) DeferralSet {
	var k Packer
	for _, d := range list {
		k.Add(d)
	}
	return k.Set()
}

// Len returns the number of deferrals.
func (s DeferralSet) Len() int { return s.n }

// All yields the deferrals in the order of their offsets.
func (s DeferralSet) All() iter.Seq[Deferral] {
	return func(yield func(Deferral) bool) {
		for p := range s.eachPage() {
			for d := range p.all() {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// Equal reports whether two sets have the same deferrals.
func (s DeferralSet) Equal(other DeferralSet) bool {
	if s.n != other.n {
		return false
	}
	r := other.reader()
	for d := range s.All() {
		if e, _ := r.next(); e != d {
			return false
		}
	}
	return true
}

func (s DeferralSet) reader() setReader { return setReader{groups: s.groups} }

// setReader reads the deferrals of a set in order.
type setReader struct {
	groups [][]page
	pages  []page // of the current group
	in     pageReader
}

func (r *setReader) next() (Deferral, bool) {
	for r.in.left == 0 && len(r.pages)+len(r.groups) > 0 {
		if len(r.pages) == 0 {
			r.pages, r.groups = r.groups[0], r.groups[1:]
		}
		r.in, r.pages = r.pages[0].reader(), r.pages[1:]
	}
	return r.in.next()
}

// last returns the greatest offset; false if the set is empty.
func (s DeferralSet) last() (seq.Offset, bool) {
	if s.n == 0 {
		return 0, false
	}
	return lastOf(&s.groups[len(s.groups)-1]), true
}

// from returns the subset at or above an offset.
func (s DeferralSet) from(o seq.Offset) DeferralSet {
	if s.n == 0 || s.groups[0][0].first >= o {
		return s
	}
	return s.filter(func(p *page) bool { return p.last < o }, func(p *page) bool { return p.first >= o },
		func(d Deferral) bool { return d.Offset >= o })
}

// below returns the subset below an offset.
func (s DeferralSet) below(o seq.Offset) DeferralSet {
	if last, some := s.last(); !some || last < o {
		return s
	}
	return s.filter(func(p *page) bool { return p.first >= o }, func(p *page) bool { return p.last < o },
		func(d Deferral) bool { return d.Offset < o })
}

// filter returns a subset: without the pages for which none is true, with the pages for which whole
// is true, and with the deferrals of other pages for which keep is true.
func (s DeferralSet) filter(none, whole func(*page) bool, keep func(Deferral) bool) DeferralSet {
	var k Packer
	for p := range s.eachPage() {
		switch {
		case none(p):
		case whole(p):
			k.share(*p)
		default:
			for d := range p.all() {
				if keep(d) {
					k.Add(d)
				}
			}
		}
	}
	return k.Set()
}

// with returns the set with the deferral at an offset changed by f, which returns false to remove
// it. It returns false if the set has none at the offset.
func (s DeferralSet) with(o seq.Offset, f func(*Deferral) bool) (DeferralSet, bool) {
	at := pageOf(s.groups, o, lastOf)
	if at == len(s.groups) {
		return s, false
	}
	group := s.groups[at]
	i := pageOf(group, o, func(p *page) seq.Offset { return p.last })
	if group[i].first > o || !group[i].has(o) {
		return s, false
	}
	from, to := i, i+1
	switch rest := group[i].n - 1; { // the rest of a page may be merged with an adjacent one
	case to < len(group) && rest+group[to].n <= pageEntries/2:
		to++
	case from > 0 && rest+group[from-1].n <= pageEntries/2:
		from--
	}
	var k Packer
	before := 0
	for j := range group[from:to] {
		p := &group[from+j]
		before += p.n
		for d := range p.all() {
			if d.Offset != o || f(&d) {
				k.Add(d)
			}
		}
	}
	made := k.finish()
	changed := slices.Concat(group[:from], made, group[to:])
	groups := make([][]page, 0, len(s.groups)+1)
	groups = append(groups, s.groups[:at]...)
	for g := range slices.Chunk(changed, groupPages) {
		groups = append(groups, g)
	}
	return DeferralSet{append(groups, s.groups[at+1:]...), s.n - before + k.n}, true
}

// lastOf returns the greatest offset of a group.
func lastOf(g *[]page) seq.Offset { return (*g)[len(*g)-1].last }

// Merge returns the deferrals of two sets that have no offset in common.
func (s DeferralSet) Merge(other DeferralSet) DeferralSet { return s.overlay(other, nil, 0) }

// overlay returns the deferrals at or above floor that are not in the sorted ranges, and those of
// next.
func (s DeferralSet) overlay(next DeferralSet, named []Range, floor seq.Offset) DeferralSet {
	var k Packer
	r := next.from(floor).reader()
	d, some := r.next()
	upTo := func(o seq.Offset) {
		for some && d.Offset < o {
			k.Add(d)
			d, some = r.next()
		}
	}
	for p := range s.eachPage() {
		for len(named) > 0 && named[0].End <= p.first {
			named = named[1:]
		}
		if p.last < floor {
			continue
		}
		upTo(p.first)
		if p.first >= floor && (len(named) == 0 || named[0].From > p.last) && (!some || d.Offset > p.last) {
			k.share(*p)
			continue
		}
		left := named
		for e := range p.all() {
			upTo(e.Offset)
			for len(left) > 0 && left[0].End <= e.Offset {
				left = left[1:]
			}
			if e.Offset >= floor && (len(left) == 0 || left[0].From > e.Offset) {
				k.Add(e)
			}
		}
	}
	upTo(seq.MaxOffset + 1)
	return k.Set()
}
