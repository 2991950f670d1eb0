package dedup

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Verdict is what an id is to a Window.
type Verdict uint8

// The verdicts.
const (
	Fresh   Verdict = iota // nobody came with it within the window: it is claimed now
	Claimed                // it is being stored
	Stored                 // it is in the log
)

// Window decides which ids are stored: each once within a time. W is whoever
// publishes. Moments ascend. It is not for concurrent use.
type Window[W any] struct {
	lasts     time.Duration
	most      int
	table     table
	claims    map[Hash][]Place[W] // ids that are being stored, and who waits for that
	forgotten uint64
	found     uint64
	warmed    uint64 // kept, so that it is read
}

// Place is a message of a publish.
type Place[W any] struct {
	Publish W
	Index   int
}

// NewWindow returns a window that lasts so long and knows so many ids at most; 0:
// DefaultMost.
func NewWindow[W any](lasts time.Duration, most int) *Window[W] {
	if most == 0 {
		most = DefaultMost
	}
	return &Window[W]{lasts: lasts, most: most, claims: map[Hash][]Place[W]{}}
}

// SetLasts changes how long the window lasts.
func (w *Window[W]) SetLasts(d time.Duration) { w.lasts = d }

// Prepare has the next calls for some ids, which are claims or stores, wait for memory together. It changes nothing.
func (w *Window[W]) Prepare(hashes []Hash, stores bool) {
	w.warmed = w.table.Warm(hashes)
	if stores && w.table.Len()+len(hashes) > w.most {
		w.warmed += w.table.WarmOldest(len(hashes))
	}
}

// Claim asks for an id at a moment. Fresh: it is claimed for by, until Store or
// Release. Claimed: by is returned by those. Stored: it is at an offset.
func (w *Window[W]) Claim(h Hash, by Place[W], now time.Duration) (Verdict, seq.Offset) {
	if o, at, ok := w.table.Find(h); ok && now-at < w.lasts {
		w.found++
		return Stored, o
	}
	if waiting, ok := w.claims[h]; ok {
		w.claims[h] = append(waiting, by)
		w.found++
		return Claimed, 0
	}
	w.claims[h] = nil
	return Fresh, 0
}

// Store ends a claim: the id is at an offset. It returns who waited for that.
func (w *Window[W]) Store(h Hash, o seq.Offset, now time.Duration) []Place[W] {
	waiting := w.Release(h)
	w.Add(h, o, now)
	return waiting
}

// Release ends a claim: the id is not stored. It returns who waited for that.
func (w *Window[W]) Release(h Hash) []Place[W] {
	waiting := w.claims[h]
	delete(w.claims, h)
	return waiting
}

// Add notes an id that was found in the log.
func (w *Window[W]) Add(h Hash, o seq.Offset, at time.Duration) {
	w.Expire(at)
	if w.table.Len() >= w.most {
		w.table.Drop()
		w.forgotten++
	}
	w.table.Add(h, o, at)
}

// Expire forgets the ids whose window is over at a moment.
func (w *Window[W]) Expire(now time.Duration) {
	for {
		at, ok := w.table.Oldest()
		if !ok || now-at < w.lasts {
			return
		}
		w.table.Drop()
	}
}

// Counts are a window's figures.
type Counts struct {
	IDs        int    // that are known
	Duplicates uint64 // that were found
	Forgotten  uint64 // before their window was over, since there were too many
}

// Plus returns the sums of two.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.IDs + d.IDs, c.Duplicates + d.Duplicates, c.Forgotten + d.Forgotten}
}

// Counts returns the window's figures.
func (w *Window[W]) Counts() Counts {
	return Counts{w.table.Len(), w.found, w.forgotten}
}
