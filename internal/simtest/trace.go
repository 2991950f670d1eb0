package simtest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// traceLimit is how many events a Trace remembers: the last ones.
const traceLimit = 400

// Trace remembers what happened last, and a sum of each event, so that runs can be
// compared. It may be used by many goroutines.
type Trace struct {
	began time.Time

	mu     sync.Mutex // guards what follows
	events []string
	lost   int
	sums   []uint64 // of each event, with its time
}

// NewTrace returns a trace that begins now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Add notes an event.
func (t *Trace) Add(format string, args ...any) {
	line := fmt.Sprintf("%9.4f ", time.Since(t.began).Seconds()) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, line)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(line)) // it cannot fail
	t.sums = append(t.sums, sum.Sum64())
	if len(t.events) > 2*traceLimit {
		t.lost += traceLimit
		t.events = append(t.events[:0], t.events[traceLimit:]...)
	}
}

// String returns the last events, one a line.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := max(0, len(t.events)-traceLimit)
	return fmt.Sprintf("the last %d of %d events:\n%s", len(t.events)-from, t.lost+len(t.events), strings.Join(t.events[from:], "\n"))
}

// Sums returns a sum of each event and its time, in order.
func (t *Trace) Sums() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sums)
}
