package channel

import (
	"math"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// soon is how long before its due time a deferred message is tracked like others. Messages that are
// due in more than twice that time are packed.
const soon = 30 * time.Second

// drawnAtOnce is how many pages are searched at once for messages that are due soon.
const drawnAtOnce = 16

// far holds deferred messages that are not due soon, in a tenth of the memory of tracked ones. They
// count as deferred, and not as ahead of the cursor. The zero value is empty.
type far struct {
	pages []farPage // by offset
	soon  []int64   // for each block of farBlock pages the earliest due time, or an earlier one
	stale bool      // soon does not match the pages
	n     int
	met   seq.Set // offsets from the floor on that were in pages: one that is neither finished nor tracked still is
	due   int64   // the earliest due time, or an earlier one
	taken int64   // when the last one of the last page was deferred
	open  bool    // messages may be appended to the last page
	empty int     // empty pages, until they are removed together
}

// farBlock is the number of pages that share one earliest due time.
const farBlock = 64

// farPage is a page with times on the timeline. An empty page keeps its range of offsets.
type farPage struct {
	page
	due int64 // the earliest due time; MaxInt64 if it is empty
}

// has reports whether an unfinished, untracked message is far.
func (f *far) has(o seq.Offset) bool { return f.n > 0 && f.met.Contains(o) }

// pageOf returns the index of the first page that does not end before an offset.
func (f *far) pageOf(o seq.Offset) int {
	return pageOf(f.pages, o, func(p *farPage) seq.Offset { return p.last })
}

// add adds a message.
func (f *far) add(d Deferral) {
	if f.n == 0 {
		*f = far{due: math.MaxInt64}
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
		f.pages = append(f.pages, farPage{due: math.MaxInt64})
		f.open = true
		last++
	}
	p := &f.pages[last]
	f.taken = p.append(d, f.taken)
	p.due = min(p.due, d.At)
	if f.stale {
		return
	}
	if last/farBlock == len(f.soon) {
		f.soon = append(f.soon, math.MaxInt64)
	}
	f.soon[last/farBlock] = min(f.soon[last/farBlock], d.At)
}

// insert inserts a message before others. A full page is split into two of about the same size.
func (f *far) insert(d Deferral) {
	i := f.pageOf(d.Offset)
	var k packer
	added, most := false, pageEntries
	if f.pages[i].n == pageEntries {
		most = pageEntries/2 + 1
	}
	add := func(d Deferral) {
		if k.n == most {
			k.close()
		}
		k.add(d)
	}
	for e := range f.pages[i].all() {
		if !added && e.Offset > d.Offset {
			add(d)
			added = true
		}
		add(e)
	}
	if !added {
		k.add(d)
		f.empty-- // the page is no longer empty
	}
	made := k.finish()
	pages := make([]farPage, 0, len(made))
	for _, p := range made {
		due := int64(math.MaxInt64)
		for e := range p.all() {
			due = min(due, e.At)
		}
		pages = append(pages, farPage{p, due})
	}
	f.touched(i)
	if len(pages) == 1 && !f.stale {
		f.soon[i/farBlock] = min(f.soon[i/farBlock], d.At)
	}
	f.stale = f.stale || len(pages) > 1
	f.pages = slices.Replace(f.pages, i, i+1, pages...)
}

// touched prevents appends to a page.
func (f *far) touched(i int) {
	if i == len(f.pages)-1 {
		f.open = false
	}
}

// sift removes the wanted messages from a page, and appends them to out. The caller then calls
// settle.
func (f *far) sift(i int, wanted func(Deferral) bool, out []Deferral) []Deferral {
	var k packer
	was, due, p := len(out), int64(math.MaxInt64), &f.pages[i]
	for d := range p.all() {
		if wanted(d) {
			out = append(out, d)
		} else {
			k.add(d)
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
func (f *far) settle() {
	switch {
	case f.n == 0:
		*f = far{}
	case f.empty > len(f.pages)/2, len(f.pages) >= farBlock && f.n < len(f.pages)*pageEntries/8:
		f.join()
	}
}

// join removes empty pages and merges adjacent small ones.
func (f *far) join() {
	was := f.pages
	f.pages, f.empty, f.open, f.stale = was[:0], 0, false, true
	for i := 0; i < len(was); {
		p, end, n := was[i], i+1, was[i].n
		for end < len(was) && n+was[end].n <= pageEntries/2 {
			n += was[end].n
			end++
		}
		if n > 0 && n > p.n {
			var k packer
			for j := range was[i:end] {
				p.due = min(p.due, was[i+j].due)
				for d := range was[i+j].all() {
					k.add(d)
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
func (f *far) freshen() {
	f.soon, f.stale = f.soon[:0], false
	for block := range slices.Chunk(f.pages, farBlock) {
		f.soon = append(f.soon, dueOf(block))
	}
}

// dueOf returns the earliest due time of pages.
func dueOf(pages []farPage) int64 {
	due := int64(math.MaxInt64)
	for i := range pages {
		due = min(due, pages[i].due)
	}
	return due
}

// take removes and returns the messages of sorted offsets.
func (f *far) take(offsets []seq.Offset) (out []Deferral) {
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

// soonest removes and returns the messages due at or before until, from pages with a message due at
// or before from. It visits a bounded number of such pages, in addition to those with a message due
// now.
func (f *far) soonest(now, from, until int64) (out []Deferral) {
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

// soonestOf is soonest for a block of pages. It returns how many further pages without a message
// due now may be visited.
func (f *far) soonestOf(block int, now, from int64, left int, until int64, out *[]Deferral) int {
	first := block * farBlock
	end := min(first+farBlock, len(f.pages))
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

// dropBelow removes messages below an offset, and returns how many there were.
func (f *far) dropBelow(o seq.Offset) (n int) {
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

// set returns all messages, with times on the wall clock.
func (f *far) set(wall int64) DeferralSet {
	var k packer
	if f.n == 0 {
		return k.set()
	}
	k.pages = make([]page, 0, len(f.pages))
	for i := range f.pages {
		if p := f.pages[i].page; p.n > 0 {
			p.base = addTime(p.base, time.Duration(wall))
			k.share(p)
		}
	}
	return k.set()
}

// farReader reads messages in the order of the log.
type farReader struct {
	f     *far
	in    pageReader
	page  int // the next one
	ahead Deferral
	some  bool
}

// find returns the message at an offset, which must be above all offsets of earlier calls.
func (r *farReader) find(o seq.Offset) (Deferral, bool) {
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

// farEnough reports whether a message with a due time should be packed. Messages with an order are
// not packed.
func farEnough(s *State, now, due int64) bool {
	return due > addTime(now, 2*soonOf(&s.ledger)) && due < math.MaxInt64 && !s.ordered && s.keyed == nil
}

// soonOf returns how long before its due time a message is tracked.
func soonOf(l *ledger) time.Duration {
	if l.nearby > 0 {
		return l.nearby
	}
	return soon
}

// postpone defers an untracked message from now until it is due.
func postpone(s *State, o seq.Offset, attempts uint16, now, due int64) {
	s.deferred++
	if farEnough(s, now, due) {
		s.recorder.add(o)
		s.track().tell(o)
		s.t.far.add(Deferral{o, due, time.Duration(due - now), min(attempts, MaxAttempts)})
		return
	}
	s.track().intoDeferred(s.meet(o, attempts), now, due)
}

// draw tracks messages that were far.
func draw(l *ledger, list []Deferral) {
	for _, d := range list {
		if d.Offset >= l.cursor {
			l.ahead++
		}
		l.t.intoDeferred(l.t.add(d.Offset, d.Attempts), d.At-int64(d.Delay), d.At)
	}
}

// drawSoon tracks messages that are due soon.
func drawSoon(l *ledger, now int64) {
	if l.t != nil && l.t.far.n > 0 {
		draw(l, l.t.far.soonest(now, addTime(now, soonOf(l)), addTime(now, 2*soonOf(l))))
	}
}

// drawThese tracks those of the given messages that are far.
func drawThese(l *ledger, offsets []seq.Offset) {
	if l.t == nil || l.t.far.n == 0 {
		return
	}
	offsets = slices.Clone(offsets)
	slices.Sort(offsets)
	draw(l, l.t.far.take(slices.Compact(offsets)))
}

// drawRange tracks the far messages of a range.
func drawRange(l *ledger, from, end seq.Offset) {
	if l.t == nil {
		return
	}
	f := &l.t.far
	for i := f.pageOf(from); i < len(f.pages) && f.pages[i].first < end; i++ {
		draw(l, f.sift(i, func(d Deferral) bool { return d.Offset >= from && d.Offset < end }, nil))
	}
	f.settle()
}

// drawWhere tracks the wanted far messages. It visits all of them.
func drawWhere(l *ledger, wanted func(Deferral) bool) {
	for i := range l.t.far.pages {
		draw(l, l.t.far.sift(i, wanted, nil))
	}
	l.t.far.settle()
}

// slotOf returns the slot of an unfinished message below the cursor or tracked ahead of it. A far
// message is tracked first.
func (l *ledger) slotOf(o seq.Offset) (int32, bool) {
	if l.t == nil {
		return 0, false
	}
	slot, ok := l.t.index.get(o)
	if !ok && o >= l.floor && l.t.far.has(o) && !l.done.Contains(o) {
		draw(l, l.t.far.take([]seq.Offset{o}))
		return l.t.index.get(o)
	}
	return slot, ok
}

// isFar reports whether a message is deferred and far.
func isFar(l *ledger, o seq.Offset) bool {
	if l.t == nil || o < l.floor || !l.t.far.has(o) || l.done.Contains(o) {
		return false
	}
	_, tracked := l.t.index.get(o)
	return !tracked
}

// farAt returns the message at an offset if it is far.
func farAt(l *ledger, o seq.Offset) (Deferral, bool) {
	if !isFar(l, o) {
		return Deferral{}, false // without reading a page
	}
	r := farReader{f: &l.t.far}
	return r.find(o)
}

// each calls f with every message.
func (f *far) each(call func(Deferral)) {
	for i := range f.pages {
		for d := range f.pages[i].all() {
			call(d)
		}
	}
}

// deferralOf returns a deferred message in the form of a position.
func deferralOf(s *State, m *message) Deferral {
	return Deferral{m.offset, s.onWall(m.due), max(1, subTime(m.due, m.taken)), m.attempts}
}
