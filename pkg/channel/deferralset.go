package channel

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

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

// DeferralsOf returns the set of the given deferrals, which are sorted by offset.
func DeferralsOf(list ...Deferral) DeferralSet {
	var k packer
	for _, d := range list {
		k.add(d)
	}
	return k.set()
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
	var k packer
	for p := range s.eachPage() {
		switch {
		case none(p):
		case whole(p):
			k.share(*p)
		default:
			for d := range p.all() {
				if keep(d) {
					k.add(d)
				}
			}
		}
	}
	return k.set()
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
	var k packer
	before := 0
	for j := range group[from:to] {
		p := &group[from+j]
		before += p.n
		for d := range p.all() {
			if d.Offset != o || f(&d) {
				k.add(d)
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

// overlay returns the deferrals at or above floor that are not in the sorted ranges, and those of
// next.
func (s DeferralSet) overlay(next DeferralSet, named []Range, floor seq.Offset) DeferralSet {
	var k packer
	r := next.from(floor).reader()
	d, some := r.next()
	upTo := func(o seq.Offset) {
		for some && d.Offset < o {
			k.add(d)
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
				k.add(e)
			}
		}
	}
	upTo(seq.MaxOffset + 1)
	return k.set()
}

// pageEntries is the maximum number of entries in a page.
const pageEntries = 512

// page is some deferrals in the order of their offsets. An entry is
//
//	+-----------------------------+-----------------------------+------------------------+-----------+
//	| 2 * gap + 1 if attempts > 0 | when it is due, less base   | when it was deferred,  | attempts, |
//	|                             |                             | less that of the last  | if any    |
//	+-----------------------------+-----------------------------+------------------------+-----------+
//
// in varints, the times signed. A gap counts from the end of the entry before it. The first entry has no gap,
// is due at base, and was deferred less base.
type page struct {
	first, last seq.Offset
	base        int64 // a time
	n           int
	entries     []byte // immutable, except for appending
}

// all yields the deferrals of the page.
func (p *page) all() iter.Seq[Deferral] {
	return func(yield func(Deferral) bool) {
		r := p.reader()
		for d, ok := r.next(); ok && yield(d); d, ok = r.next() {
		}
	}
}

// has reports whether a deferral is at an offset.
func (p *page) has(o seq.Offset) bool {
	for d := range p.all() {
		if d.Offset >= o {
			return d.Offset == o
		}
	}
	return false
}

func (p *page) reader() pageReader {
	return pageReader{rest: p.entries, left: p.n, base: p.base, at: p.first, taken: p.base}
}

// pageReader reads the entries of a valid page.
type pageReader struct {
	rest  []byte
	left  int
	base  int64
	at    seq.Offset // after the last entry
	taken int64      // when the last one was deferred
}

func (r *pageReader) next() (d Deferral, ok bool) {
	if r.left == 0 {
		return d, false
	}
	r.left--
	head := r.number()
	d.Offset = r.at + seq.Offset(head>>1)
	d.At = r.base + signed(r.number())
	r.taken += signed(r.number())
	d.Delay = time.Duration(d.At - r.taken)
	if head&1 != 0 {
		d.Attempts = uint16(r.number()) //nolint:gosec // checked where it was read
	}
	r.at = d.Offset + 1
	return d, true
}

func (r *pageReader) number() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.rest)
	r.rest = r.rest[max(n, 0):]
	return v
}

// signed returns what binary.AppendVarint encodes as v.
func signed(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) } //nolint:gosec // the bits that are meant

// append adds a deferral after the others. taken is when the last one was deferred. It returns when
// this one was.
func (p *page) append(d Deferral, taken int64) int64 {
	if p.n == 0 {
		p.first, p.base, taken = d.Offset, d.At, d.At
		p.last = d.Offset - 1
	}
	head := uint64(d.Offset-p.last-1) << 1
	if d.Attempts > 0 {
		head |= 1
	}
	at := d.At - int64(d.Delay)
	p.entries = binary.AppendUvarint(p.entries, head)
	p.entries = binary.AppendVarint(p.entries, d.At-p.base)
	p.entries = binary.AppendVarint(p.entries, at-taken)
	if d.Attempts > 0 {
		p.entries = binary.AppendUvarint(p.entries, uint64(d.Attempts))
	}
	p.last = d.Offset
	p.n++
	return at
}

// seal releases memory that further entries will not need.
func (p *page) seal() {
	if cap(p.entries)-len(p.entries) > len(p.entries)/8 {
		p.entries = append(make([]byte, 0, len(p.entries)), p.entries...)
	}
}

// pageOf returns the index of the first page that ends at or after an offset.
func pageOf[P any](pages []P, o seq.Offset, last func(*P) seq.Offset) int {
	from, to := 0, len(pages)
	for from < to {
		if mid := (from + to) / 2; last(&pages[mid]) < o {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// packer builds a DeferralSet from deferrals in the order of their offsets.
type packer struct {
	pages []page
	n     int
	open  bool  // entries may be added to the last page, which is not shared
	taken int64 // when its last one was deferred
}

func (k *packer) add(d Deferral) {
	if !k.open || k.pages[len(k.pages)-1].n == pageEntries {
		k.close()
		k.pages = append(k.pages, page{})
		k.open = true
	}
	k.taken = k.pages[len(k.pages)-1].append(d, k.taken)
	k.n++
}

// share adds a complete page, which may be part of another set. It is merged with the previous page
// if both are small.
func (k *packer) share(p page) {
	if last := len(k.pages) - 1; last >= 0 && k.pages[last].n+p.n <= pageEntries/2 {
		k.reopen()
		for d := range p.all() {
			k.add(d)
		}
		return
	}
	k.close()
	p.entries = slices.Clip(p.entries)
	k.pages = append(k.pages, p)
	k.n += p.n
}

// reopen makes it possible to add entries to the last page again, in a copy if the page may be part
// of another set.
func (k *packer) reopen() {
	if k.open {
		return
	}
	last := &k.pages[len(k.pages)-1]
	was := *last
	*last = page{}
	for d := range was.all() {
		k.taken = last.append(d, k.taken)
	}
	k.open = true
}

func (k *packer) close() {
	if k.open {
		k.pages[len(k.pages)-1].seal()
	}
	k.open = false
}

// finish returns the pages.
func (k *packer) finish() []page {
	k.close()
	return k.pages
}

func (k *packer) set() DeferralSet { return setOf(k.finish(), k.n) }

// setOf returns the set of the given pages with n entries.
func setOf(pages []page, n int) DeferralSet {
	s := DeferralSet{n: n}
	if n > 0 {
		s.groups = slices.Collect(slices.Chunk(pages, groupPages))
	}
	return s
}
