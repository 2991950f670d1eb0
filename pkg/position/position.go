package position

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Position is the stored state of a channel on one partition. Its slices are sorted by offset, and
// no offset is in two of them.
type Position struct {
	Floor    seq.Offset // everything below is finished
	Finished []Range    // beyond the floor
	// Deferred are the messages that publishers or consumers deferred. The log also has the
	// publisher's delay, but finding deferred messages there would require reading all of it.
	Deferred DeferralSet
	// Attempted are the messages that were delivered and are neither finished nor deferred.
	Attempted []Attempt
}

// Range is the offsets [From, End).
type Range struct{ From, End seq.Offset }

// Deferral is a message that is not to be delivered before a time.
type Deferral struct {
	Offset   seq.Offset
	At       int64         // due time in ns since 1970, by the wall clock of the checkpoint's creator
	Delay    time.Duration // counted from its deferral, the longest time that it may wait, whatever the clocks; 0: an operator advanced it
	Attempts seq.Attempts
}

// Attempt is how often a message has been delivered.
type Attempt struct {
	Offset   seq.Offset
	Attempts seq.Attempts
}

// Finish adds a finished message to p, in constant time at the floor and in time proportional
// to p elsewhere. The slices of p are changed in place.
func (p *Position) Finish(o seq.Offset) {
	if o < p.Floor {
		return
	}
	p.Deferred, _ = p.Deferred.with(o, func(*Deferral) bool { return false })
	if at, ok := slices.BinarySearchFunc(p.Attempted, o, func(a Attempt, o seq.Offset) int { return cmp.Compare(a.Offset, o) }); ok {
		p.Attempted = cut(p.Attempted, at)
	}
	if o > p.Floor {
		p.Finished = include(p.Finished, o)
		return
	}
	p.Floor++
	p.Absorb()
}

// Attempt raises a message's number of deliveries in p to at least attempts. It does nothing for a
// finished message. The slices of p are changed in place.
func (p *Position) Attempt(o seq.Offset, attempts seq.Attempts) {
	i, _ := slices.BinarySearchFunc(p.Finished, o, func(r Range, o seq.Offset) int { return cmp.Compare(r.End, o+1) })
	if o < p.Floor || i < len(p.Finished) && p.Finished[i].From <= o {
		return
	}
	more := func(d *Deferral) bool {
		d.Attempts = d.Attempts.Later(attempts)
		return true
	}
	var ok bool
	if p.Deferred, ok = p.Deferred.with(o, more); ok {
		return
	}
	at, ok := slices.BinarySearchFunc(p.Attempted, o, func(a Attempt, o seq.Offset) int { return cmp.Compare(a.Offset, o) })
	if !ok {
		p.Attempted = slices.Insert(p.Attempted, at, Attempt{Offset: o})
	}
	p.Attempted[at].Attempts = p.Attempted[at].Attempts.Later(attempts)
}

// AdvanceTo finishes everything below floor in p. It has no effect if p is already there.
func (p *Position) AdvanceTo(floor seq.Offset) {
	if floor <= p.Floor {
		return
	}
	p.Floor = floor
	p.Deferred = p.Deferred.from(floor)
	for len(p.Attempted) > 0 && p.Attempted[0].Offset < floor {
		p.Attempted = p.Attempted[1:]
	}
	p.Absorb()
}

// Absorb moves the floor over finished offsets.
func (p *Position) Absorb() {
	for len(p.Finished) > 0 && p.Finished[0].From <= p.Floor {
		p.Floor = max(p.Floor, p.Finished[0].End)
		p.Finished = p.Finished[1:]
	}
	if len(p.Finished) == 0 {
		p.Finished = nil
	}
}

// include adds an offset to sorted ranges that do not touch each other.
func include(ranges []Range, o seq.Offset) []Range {
	i, _ := slices.BinarySearchFunc(ranges, o, func(r Range, o seq.Offset) int { return cmp.Compare(r.End, o) })
	switch { // ranges[i] is the first that ends at o or later
	case i == len(ranges) || ranges[i].From > o+1:
		return slices.Insert(ranges, i, Range{o, o + 1})
	case ranges[i].From == o+1:
		ranges[i].From = o
	case ranges[i].End == o:
		ranges[i].End++
		if i+1 < len(ranges) && ranges[i+1].From == o+1 {
			ranges[i].End = ranges[i+1].End
			return slices.Delete(ranges, i+1, i+2)
		}
	}
	return ranges
}

// cut returns list without an entry; removing the first one costs nothing.
func cut[E any](list []E, at int) []E {
	if at == 0 {
		list = list[1:]
	} else {
		list = slices.Delete(list, at, at+1)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// Reaches reports whether the position refers to offsets at or beyond end.
func (p *Position) Reaches(end seq.Offset) bool {
	n, a := len(p.Finished), len(p.Attempted)
	last, deferred := p.Deferred.last()
	return p.Floor > end || n > 0 && p.Finished[n-1].End > end ||
		deferred && last >= end || a > 0 && p.Attempted[a-1].Offset >= end
}

// Below returns the part of the position below end: what may be kept if only the log below end
// is certain to survive.
func (p Position) Below(end seq.Offset) Position {
	q := Position{Floor: min(p.Floor, end)}
	for _, r := range p.Finished {
		if r.From < end {
			q.Finished = append(q.Finished, Range{r.From, min(r.End, end)})
		}
	}
	q.Deferred = p.Deferred.below(end)
	for _, a := range p.Attempted {
		if a.Offset < end {
			q.Attempted = append(q.Attempted, a)
		}
	}
	return q
}

// Moved counts the effect of a move of the channel from p to a target: finished messages that would
// be redelivered, and unfinished ones that would be skipped.
func (p *Position) Moved(target seq.Offset) (redelivered, skipped int64) {
	redelivered = max(0, int64(p.Floor)-int64(target))
	skipped = max(0, int64(target)-int64(p.Floor))
	for _, r := range p.Finished {
		below := max(0, int64(min(r.End, target))-int64(r.From))
		skipped -= below
		redelivered += int64(r.End-r.From) - below
	}
	return redelivered, skipped
}
