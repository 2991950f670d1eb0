package position

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

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
		d.Attempts = seq.Attempts(r.number()) //nolint:gosec // checked where it was read
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

// Packer builds a DeferralSet from deferrals in the order of their offsets. The zero value is ready
// for use.
type Packer struct {
	pages []page
	n     int
	open  bool  // entries may be added to the last page, which is not shared
	taken int64 // when its last one was deferred
}

// Add adds a deferral after the others.
func (k *Packer) Add(d Deferral) {
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
func (k *Packer) share(p page) {
	if last := len(k.pages) - 1; last >= 0 && k.pages[last].n+p.n <= pageEntries/2 {
		k.reopen()
		for d := range p.all() {
			k.Add(d)
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
func (k *Packer) reopen() {
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

func (k *Packer) close() {
	if k.open {
		k.pages[len(k.pages)-1].seal()
	}
	k.open = false
}

// finish returns the pages.
func (k *Packer) finish() []page {
	k.close()
	return k.pages
}

// Set returns the set.
func (k *Packer) Set() DeferralSet { return setOf(k.finish(), k.n) }

// setOf returns the set of the given pages with n entries.
func setOf(pages []page, n int) DeferralSet {
	s := DeferralSet{n: n}
	if n > 0 {
		s.groups = slices.Collect(slices.Chunk(pages, groupPages))
	}
	return s
}
