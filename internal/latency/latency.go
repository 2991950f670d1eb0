// Package latency records durations over a sliding window in bounded memory, as histograms that
// can be merged across nodes before a quantile is read.
//
// A Histogram is log-linear: 16 counters for every doubling between 16 units of 1,024 ns and
// about 52 days. A quantile is off by at most 1/32 of its value, and by half a unit below 16
// units. Longer durations count as the maximum. A Window consists of four Histograms of 2.5 KB
// each, allocated when the first duration is recorded.
//
// The text form of a Histogram is "count@bucket" for each non-empty bucket.
//
// The caller passes the time. The types are not safe for concurrent use.
package latency

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"
)

const (
	unitBits = 10 // a unit is 1,024 ns
	subBits  = 4
	subs     = 1 << subBits
	topBits  = 42 // the longest is below 2^42 units
	buckets  = (topBits - subBits + 1) * subs
	parts    = 4
)

// Histogram counts durations. The zero value is empty.
type Histogram struct {
	counts [buckets]uint32
	total  uint64
}

// Record counts one duration. One below zero, of clocks that differ, counts as zero.
func (h *Histogram) Record(d time.Duration) {
	h.add(bucketOf(d), 1)
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.add(i, n)
	}
}

// Merged returns the sum of two Histograms, of which each may be nil and none is changed;
// nil if both are.
func Merged(a, b *Histogram) *Histogram {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a
	sum.Merge(b)
	return &sum
}

func (h *Histogram) add(bucket int, n uint32) {
	n = min(n, math.MaxUint32-h.counts[bucket])
	h.counts[bucket] += n
	h.total += uint64(n)
}

// MarshalText implements encoding.TextMarshaler.
func (h *Histogram) MarshalText() ([]byte, error) {
	var text []byte
	for i, n := range h.counts {
		if n > 0 {
			text = fmt.Appendf(text, "%d@%d ", n, i)
		}
	}
	return bytes.TrimSuffix(text, []byte(" ")), nil
}

// errText is why a text is no Histogram.
var errText = errors.New("not a histogram")

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Histogram) UnmarshalText(text []byte) error {
	*h = Histogram{}
	for word := range bytes.FieldsSeq(text) {
		count, at, _ := bytes.Cut(word, []byte("@"))
		n, err := strconv.ParseUint(string(count), 10, 32)
		i, errAt := strconv.ParseUint(string(at), 10, 32)
		if err != nil || errAt != nil || i >= buckets {
			return fmt.Errorf("%w: %.40q", errText, word)
		}
		h.add(int(i), uint32(n))
	}
	return nil
}

// Count returns how many durations there are.
func (h *Histogram) Count() uint64 { return h.total }

// Quantile returns the smallest duration that a fraction q in (0, 1] of all values does not exceed;
// 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(h.total))), 1)
	for i, n := range h.counts {
		if uint64(n) >= rank {
			return middleOf(i)
		}
		rank -= uint64(n)
	}
	return 0
}

func bucketOf(d time.Duration) int {
	units := min(uint64(max(d, 0))>>unitBits, 1<<topBits-1)
	if units < subs {
		return int(units)
	}
	shift := bits.Len64(units) - subBits - 1
	return (shift+1)*subs + int(units>>shift) - subs
}

func middleOf(bucket int) time.Duration {
	shift := max(bucket/subs-1, 0)
	low := bucket - shift*subs
	return time.Duration(2*low+1) << (shift + unitBits - 1)
}

// Window keeps the durations of the last while: at least three quarters of its length,
// at most the whole.
type Window struct {
	part  time.Duration
	slots [parts]*Histogram
	turns [parts]int64 // which part of time a slot holds
}

// NewWindow returns an empty window of a length of at least four nanoseconds.
func NewWindow(length time.Duration) *Window { return &Window{part: length / parts} }

// Record counts a duration that ended now, in ns on a timeline that does not go back and
// does not begin below zero.
func (w *Window) Record(now int64, d time.Duration) {
	turn := now / int64(w.part)
	i := turn % parts
	switch {
	case w.slots[i] == nil:
		w.slots[i] = new(Histogram)
	case w.turns[i] != turn:
		*w.slots[i] = Histogram{}
	}
	w.turns[i] = turn
	w.slots[i].Record(d)
}

// AddTo merges what the window holds now into h.
func (w *Window) AddTo(h *Histogram, now int64) {
	turn := now / int64(w.part)
	for i, s := range w.slots {
		if s != nil && turn-w.turns[i] < parts {
			h.Merge(s)
		}
	}
}
