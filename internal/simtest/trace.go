package simtest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// traceLimit is how many events a Trace remembers: the last ones.
const traceLimit = 400

// Trace keeps the latest events. It may be used by many goroutines.
type Trace struct {
	began time.Time

	mu     sync.Mutex // guards what follows
	events []string
	lost   int
}

// NewTrace returns a trace that begins now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Add notes an event.
func (t *Trace) Add(format string, args ...any) {
	line := fmt.Sprintf("%9.4f ", time.Since(t.began).Seconds()) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, line)
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
