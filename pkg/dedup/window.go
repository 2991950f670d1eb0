package dedup

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Verdict is the state of an id in a Window.
type Verdict uint8

// The verdicts.
const (
	Fresh   Verdict = iota // not seen within the window: now claimed
	Claimed                // it is being stored
	Stored                 // it is in the log
)

// Window decides which ids are stored: each once within a time. W identifies a publisher. Times
// must not decrease. It is not safe for concurrent use.
type Window[W any] struct {
	lasts     time.Duration
	most      int
	table     table
	waiting   map[Hash][]Place[W] // who waits for some of the claimed ids
	forgotten uint64
	found     uint64
	warmed    uint64 // keeps the compiler from removing the reads
}

// Place is a message within a publish.
type Place[W any] struct {
	Publish W
	Index   int
}

// NewWindow returns a window of a duration that stores at most this many ids; 0 means DefaultMost.
func NewWindow[W any](lasts time.Duration, most int) *Window[W] {
	if most == 0 {
		most = DefaultMost
	}
	return &Window[W]{lasts: lasts, most: most}
}

// SetLasts changes the duration of the window.
func (w *Window[W]) SetLasts(d time.Duration) { w.lasts = d }

// Prepare prefetches memory for the next Claim or Add of some ids. It changes nothing.
func (w *Window[W]) Prepare(hashes []Hash) { w.warmed += w.table.Warm(hashes) }

// PrepareStore prefetches memory for the next n calls of Store or Add. It changes nothing.
func (w *Window[W]) PrepareStore(n int) {
	if w.table.stored+n > w.most {
		w.warmed += w.table.WarmOldest(n)
	}
}

// Claim asks for an id at a time. Fresh: the id is claimed for by until Store or Release. Claimed:
// by waits, and is returned by Store or Release. Stored: the id is stored at the returned offset.
func (w *Window[W]) Claim(h *Hash, by Place[W], now time.Duration) (Verdict, seq.Offset) {
	slot, e := w.table.Find(h)
	switch {
	case e == nil:
	case e.at == claimed:
		if w.waiting == nil {
			w.waiting = map[Hash][]Place[W]{}
		}
		w.waiting[*h] = append(w.waiting[*h], by)
		w.found++
		return Claimed, 0
	case now-e.at < w.lasts:
		w.found++
		return Stored, e.offset
	default:
		w.table.Replace(e)
	}
	w.table.Add(slot, entry{hash: *h, at: claimed})
	return Fresh, 0
}

// Next returns the number of the next fresh claim, if no earlier one ends meanwhile: Store and Release
// are faster with it.
func (w *Window[W]) Next() uint32 { return w.table.tail }

// Store ends a claim: the id is stored at an offset. It returns the publishes that waited. number is
// what Next has returned for the claim, or any other number.
func (w *Window[W]) Store(h *Hash, number uint32, o seq.Offset, now time.Duration) []Place[W] {
	if e := w.table.Claimed(h, number); e != nil {
		e.offset, e.at = o, now
		w.table.stored++
		w.bound(now)
	} else {
		w.Add(h, o, now)
	}
	return w.waited(h)
}

// Release ends a claim: the id is not stored. It returns the publishes that waited. For number see
// Store.
func (w *Window[W]) Release(h *Hash, number uint32) []Place[W] {
	if e := w.table.Claimed(h, number); e != nil {
		w.table.Release(e)
	}
	return w.waited(h)
}

// waited returns the publishes that waited for a claim.
func (w *Window[W]) waited(h *Hash) []Place[W] {
	if len(w.waiting) == 0 {
		return nil
	}
	waiting := w.waiting[*h]
	delete(w.waiting, *h)
	return waiting
}

// Add records an id that was found in the log.
func (w *Window[W]) Add(h *Hash, o seq.Offset, at time.Duration) {
	slot, e := w.table.Find(h)
	if e != nil {
		w.table.Replace(e)
	}
	w.table.Add(slot, entry{*h, o, at})
	w.bound(at)
}

// bound removes what a newly stored id makes superfluous.
func (w *Window[W]) bound(now time.Duration) {
	w.expire(now)
	for w.table.stored > w.most {
		if w.table.Oldest(); w.table.Drop() {
			w.forgotten++
		}
	}
}

// Expire removes the ids whose window has ended, except for those claimed after one that is still
// claimed: they are removed after it.
func (w *Window[W]) Expire(now time.Duration) {
	w.expire(now)
	w.table.Shrink()
}

func (w *Window[W]) expire(now time.Duration) {
	for {
		e := w.table.Oldest()
		if e == nil || e.at == claimed || now-e.at < w.lasts {
			return
		}
		w.table.Drop()
	}
}

// Counts are the counters of a window.
type Counts struct {
	IDs        int    // stored in the window
	Duplicates uint64 // found
	Forgotten  uint64 // dropped before the end of their window because there were too many
}

// Plus returns the sum of two Counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.IDs + d.IDs, c.Duplicates + d.Duplicates, c.Forgotten + d.Forgotten}
}

// Counts returns the counters of the window.
func (w *Window[W]) Counts() Counts {
	return Counts{w.table.stored, w.found, w.forgotten}
}
