package position

import (
	"iter"
	"math"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// drawnAtOnce is how many pages are searched at once for messages that are due soon.
const drawnAtOnce = 16

// DeferralQueue holds deferred messages that are not due soon, packed like a DeferralSet. Their times
// are on any clock. The zero value is empty.
type DeferralQueue struct {
	pages []queuePage // by offset
	soon  []int64     // for each block of queueBlock pages the earliest due time, or an earlier one
	stale bool        // soon does not match the pages
	n     int
	met   seq.Set // offsets from the floor on that were in pages: one that is neither finished nor tracked still is
	due   int64   // the earliest due time, or an earlier one
	taken int64   // when the last one of the last page was deferred
	open  bool    // messages may be appended to the last page
	empty int     // empty pages, until they are removed together
}

// queueBlock is the number of pages that share one earliest due time.
const queueBlock = 64

// queuePage is a page with times on the timeline. An empty page keeps its range of offsets.
type queuePage struct {
	page
	due int64 // the earliest due time; MaxInt64 if it is empty
}

// Len returns the number of messages.
func (f *DeferralQueue) Len() int { return f.n }

// Due returns the earliest due time, or an earlier one, of a queue that is not empty.
func (f *DeferralQueue) Due() int64 { return f.due }

// Had reports whether a message was added and, unless it is finished or was removed, is in the queue.
func (f *DeferralQueue) Had(o seq.Offset) bool { return f.n > 0 && f.met.Contains(o) }

// pageOf returns the index of the first page that does not end before an offset.
func (f *DeferralQueue) pageOf(o seq.Offset) int {
	return pageOf(f.pages, o, func(p *queuePage) seq.Offset { return p.last })
}

// Add adds a message.
func (f *DeferralQueue) Add(d Deferral) {
	if f.n == 0 {
		*f = DeferralQueue{due: math.MaxInt64}
	}
	f.met.Add(d.Offset)
	f.n++
	f.due = min(f.due, d.At)
	last := len(f.pages) - 1
	if last >= 0 && d.Offset <= f.pages[last].last {
		f.insert(d)
		return
	}
	if last < 0 || !f.open || f.pages[last].n == pageEntries {
		if f.open && last >= 0 {
			f.pages[last].seal()
		}
		f.pages = append(f.pages, queuePage{due: math.MaxInt64})
		f.open = true
		last++
	}
	p := &f.pages[last]
	f.taken = p.append(d, f.taken)
	p.due = min(p.due, d.At)
	if f.stale {
		return
	}
	if last/queueBlock == len(f.soon) {
		f.soon = append(f.soon, math.MaxInt64)
	}
	f.soon[last/queueBlock] = min(f.soon[last/queueBlock], d.At)
}

// insert inserts a message before others. A full page is split into two of about the same size.
func (f *DeferralQueue) insert(d Deferral) {
	i := f.pageOf(d.Offset)
	var k Packer
	added, most := false, pageEntries
	if f.pages[i].n == pageEntries {
		most = pageEntries/2 + 1
	}
	add := func(d Deferral) {
		if k.n == most {
			k.close()
		}
		k.Add(d)
	}
	for e := range f.pages[i].all() {
		if !added && e.Offset > d.Offset {
			add(d)
			added = true
		}
		add(e)
	}
	if !added {
		k.Add(d)
		f.empty-- // the page is no longer empty
	}
	made := k.finish()
	pages := make([]queuePage, 0, len(made))
	for _, p := range made {
		due := int64(math.MaxInt64)
		for e := range p.all() {
			due = min(due, e.At)
		}
		pages = append(pages, queuePage{p, due})
	}
	f.touched(i)
	if len(pages) == 1 && !f.stale {
		f.soon[i/queueBlock] = min(f.soon[i/queueBlock], d.At)
	}
	f.stale = f.stale || len(pages) > 1
	f.pages = slices.Replace(f.pages, i, i+1, pages...)
}

// touched prevents appends to a page.
func (f *DeferralQueue) touched(i int) {
	if i == len(f.pages)-1 {
		f.open = false
	}
}

// sift removes the wanted messages from a page, and appends them to out. The caller then calls
// settle.
func (f *DeferralQueue) sift(i int, wanted func(Deferral) bool, out []Deferral) []Deferral {
	var k Packer
	was, due, p := len(out), int64(math.MaxInt64), &f.pages[i]
	for d := range p.all() {
		if wanted(d) {
			out = append(out, d)
		} else {
			k.Add(d)
			due = min(due, d.At)
		}
	}
	if len(out) == was {
		return out
	}
	f.n -= len(out) - was
	f.touched(i)
	p.due = due
	if made := k.finish(); len(made) > 0 {
		p.page = made[0]
	} else {
		p.n, p.entries = 0, nil
		f.empty++
	}
	return out
}

// settle removes empty pages, and merges small ones, if there are many.
func (f *DeferralQueue) settle() {
	switch {
	case f.n == 0:
		*f = DeferralQueue{}
	case f.empty > len(f.pages)/2, len(f.pages) >= queueBlock && f.n < len(f.pages)*pageEntries/8:
		f.join()
	}
}

// join removes empty pages and merges adjacent small ones.
func (f *DeferralQueue) join() {
	was := f.pages
	f.pages, f.empty, f.open, f.stale = was[:0], 0, false, true
	for i := 0; i < len(was); {
		p, end, n := was[i], i+1, was[i].n
		for end < len(was) && n+was[end].n <= pageEntries/2 {
			n += was[end].n
			end++
		}
		if n > 0 && n > p.n {
			var k Packer
			for j := range was[i:end] {
				p.due = min(p.due, was[i+j].due)
				for d := range was[i+j].all() {
					k.Add(d)
				}
			}
			p.page = k.finish()[0]
		}
		if n > 0 {
			f.pages = append(f.pages, p)
		}
		i = end
	}
	clear(was[len(f.pages):])
}

// freshen computes the earliest due time of each block of pages.
func (f *DeferralQueue) freshen() {
	f.soon, f.stale = f.soon[:0], false
	for block := range slices.Chunk(f.pages, queueBlock) {
		f.soon = append(f.soon, dueOf(block))
	}
}

// dueOf returns the earliest due time of pages.
func dueOf(pages []queuePage) int64 {
	due := int64(math.MaxInt64)
	for i := range pages {
		due = min(due, pages[i].due)
	}
	return due
}

// Take removes and returns the messages of sorted offsets.
func (f *DeferralQueue) Take(offsets []seq.Offset) (out []Deferral) {
	for len(offsets) > 0 && f.n > 0 {
		i := f.pageOf(offsets[0])
		if i == len(f.pages) {
			break
		}
		beyond, _ := slices.BinarySearch(offsets, f.pages[i].last+1)
		here := offsets[:beyond]
		offsets = offsets[beyond:]
		out = f.sift(i, func(d Deferral) bool {
			for len(here) > 0 && here[0] < d.Offset {
				here = here[1:]
			}
			return len(here) > 0 && here[0] == d.Offset
		}, out)
	}
	f.settle()
	return out
}

// Soonest removes and returns the messages due at or before until, from pages with a message due at
// or before from. It visits a bounded number of such pages, in addition to those with a message due
// now.
func (f *DeferralQueue) Soonest(now, from, until int64) (out []Deferral) {
	if f.n == 0 || f.due > from {
		return nil
	}
	if f.stale {
		f.freshen()
	}
	due, left := int64(math.MaxInt64), drawnAtOnce
	for b := range f.soon {
		if f.soon[b] <= from {
			left = f.soonestOf(b, now, from, left, until, &out)
		}
		due = min(due, f.soon[b])
	}
	f.due = due
	f.settle()
	return out
}

// soonestOf is Soonest for a block of pages. It returns how many further pages without a message
// due now may be visited.
func (f *DeferralQueue) soonestOf(block int, now, from int64, left int, until int64, out *[]Deferral) int {
	first := block * queueBlock
	end := min(first+queueBlock, len(f.pages))
	for i := first; i < end; i++ {
		if p := &f.pages[i]; p.due > from || left <= 0 && p.due > now {
			continue
		}
		left--
		*out = f.sift(i, func(d Deferral) bool { return d.At <= until }, *out)
	}
	f.soon[block] = dueOf(f.pages[first:end])
	return left
}

// DropBelow removes messages below an offset, and returns how many there were.
func (f *DeferralQueue) DropBelow(o seq.Offset) (n int) {
	if f.n == 0 {
		return 0
	}
	n = f.n
	var out []Deferral
	for i := 0; i < len(f.pages) && f.pages[i].first < o; i++ {
		out = f.sift(i, func(d Deferral) bool { return d.Offset < o }, out[:0])
	}
	n -= f.n
	f.met.DropBelow(o)
	f.settle()
	return n
}

// Set returns all messages, with their times moved by shift.
func (f *DeferralQueue) Set(shift int64) DeferralSet {
	var k Packer
	if f.n == 0 {
		return k.Set()
	}
	k.pages = make([]page, 0, len(f.pages))
	for i := range f.pages {
		if p := f.pages[i].page; p.n > 0 {
			p.base = min(p.base, math.MaxInt64-max(shift, 0)) + shift
			k.share(p)
		}
	}
	return k.Set()
}

// QueueReader reads messages of a queue in the order of the log. The queue does not change meanwhile.
// The zero value reads an empty one.
type QueueReader struct {
	f     *DeferralQueue
	in    pageReader
	page  int // the next one
	ahead Deferral
	some  bool
}

// Find returns the message at an offset, which must be above all offsets of earlier calls.
func (r *QueueReader) Find(o seq.Offset) (Deferral, bool) {
	if r.f == nil || r.f.n == 0 {
		return Deferral{}, false
	}
	if r.page == 0 || r.f.pages[r.page-1].last < o {
		i := r.f.pageOf(o)
		if i == len(r.f.pages) {
			return Deferral{}, false
		}
		r.in, r.page = r.f.pages[i].reader(), i+1
		r.ahead, r.some = r.in.next()
	}
	for r.some && r.ahead.Offset < o {
		r.ahead, r.some = r.in.next()
	}
	return r.ahead, r.some && r.ahead.Offset == o
}

// Reader returns a reader of the queue.
func (f *DeferralQueue) Reader() QueueReader { return QueueReader{f: f} }

// All yields the messages in the order of their offsets.
func (f *DeferralQueue) All() iter.Seq[Deferral] {
	return func(yield func(Deferral) bool) {
		for i := range f.pages {
			for d := range f.pages[i].all() {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// Remove removes the wanted messages of [from, end), and calls out with those of each page.
func (f *DeferralQueue) Remove(from, end seq.Offset, wanted func(Deferral) bool, out func([]Deferral)) {
	for i := f.pageOf(from); i < len(f.pages) && f.pages[i].first < end; i++ {
		out(f.sift(i, func(d Deferral) bool { return d.Offset >= from && d.Offset < end && wanted(d) }, nil))
	}
	f.settle()
}

// Forget makes Had return false below an offset, where no message is left.
func (f *DeferralQueue) Forget(below seq.Offset) {
	if f.n > 0 {
		f.met.DropBelow(below)
	}
}

// LenFrom returns how many messages are at or after an offset.
func (f *DeferralQueue) LenFrom(o seq.Offset) (n int64) {
	if f.n == 0 {
		return 0
	}
	for i := f.pageOf(o); i < len(f.pages); i++ {
		p := &f.pages[i]
		if p.n == 0 || p.first >= o {
			n += int64(p.n)
			continue
		}
		for d := range p.all() {
			if d.Offset >= o {
				n++
			}
		}
	}
	return n
}
