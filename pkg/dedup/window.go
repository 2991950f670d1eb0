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
	claims    claims              // ids that are being stored
	waiting   map[Hash][]Place[W] // who waits for some of them
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

// Prepare prefetches memory for the next claims or stores of some ids. It changes nothing.
func (w *Window[W]) Prepare(hashes []Hash, stores bool) {
	w.warmed = w.table.Warm(hashes)
	if stores && w.table.Len()+len(hashes) > w.most {
		w.warmed += w.table.WarmOldest(len(hashes))
	}
}

// Claim asks for an id at a time. Fresh: the id is claimed for by until Store or Release. Claimed:
// by waits, and is returned by Store or Release. Stored: the id is stored at the returned offset.
func (w *Window[W]) Claim(h Hash, by Place[W], now time.Duration) (Verdict, seq.Offset) {
	if o, at, ok := w.table.Find(h); ok && now-at < w.lasts {
		w.found++
		return Stored, o
	}
	if w.claims.Add(&h) {
		return Fresh, 0
	}
	if w.waiting == nil {
		w.waiting = map[Hash][]Place[W]{}
	}
	w.waiting[h] = append(w.waiting[h], by)
	w.found++
	return Claimed, 0
}

// Store ends a claim: the id is stored at an offset. It returns the publishes that waited.
func (w *Window[W]) Store(h Hash, o seq.Offset, now time.Duration) []Place[W] {
	waiting := w.Release(h)
	w.Add(h, o, now)
	return waiting
}

// Release ends a claim: the id is not stored. It returns the publishes that waited.
func (w *Window[W]) Release(h Hash) []Place[W] {
	w.claims.Remove(&h)
	if len(w.waiting) == 0 {
		return nil
	}
	waiting := w.waiting[h]
	delete(w.waiting, h)
	return waiting
}

// Add records an id that was found in the log.
func (w *Window[W]) Add(h Hash, o seq.Offset, at time.Duration) {
	w.Expire(at)
	if w.table.Len() >= w.most {
		w.table.Drop()
		w.forgotten++
	}
	w.table.Add(h, o, at)
}

// Expire removes the ids whose window has ended.
func (w *Window[W]) Expire(now time.Duration) {
	for {
		at, ok := w.table.Oldest()
		if !ok || now-at < w.lasts {
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
	return Counts{w.table.Len(), w.found, w.forgotten}
}
