// Package processing records the recent time from publish to finish of messages.
package processing

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Times is how long the messages of a channel took from their publish to their
// Finish, recently. Its methods are safe for concurrent use; nil keeps nothing.
type Times struct {
	Base time.Time // times are kept since then

	mu     sync.Mutex // guards window
	window *latency.Window
}

// New returns the times of a window; nil for none.
func New(window time.Duration, now time.Time) *Times {
	if window <= 0 {
		return nil
	}
	return &Times{Base: now, window: latency.NewWindow(window)}
}

// Ended notes that a message which was published at a time, since the base, is finished.
func (p *Times) Ended(published time.Duration, now time.Time) {
	at := now.Sub(p.Base)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.Record(max(int64(at), 0), at-published)
}

// Histogram returns what is kept; nil where nothing is.
func (p *Times) Histogram(now time.Time) *latency.Histogram {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := new(latency.Histogram)
	p.window.AddTo(h, max(int64(now.Sub(p.Base)), 0))
	return h
}

// Least is how many publishes of messages are kept in any case.
const Least = 1024

// Published is when the messages that a consumer was given were published, since the base
// of a Times. Its methods are safe for concurrent use.
type Published struct {
	mu sync.Mutex // guards at
	at map[seq.Offset]time.Duration
}

// Add notes when a message was published.
func (p *Published) Add(o seq.Offset, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[seq.Offset]time.Duration{}
	}
	p.at[o] = at
}

// Pop returns when a message was published, and forgets it.
func (p *Published) Pop(o seq.Offset) (at time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok = p.at[o]
	delete(p.at, o)
	return at, ok
}

// Trim forgets the messages that the consumer does not have, if these may be the most:
// they timed out, or were taken from it.
func (p *Published) Trim(most int, has func() []seq.Offset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.at) < Least+2*most {
		return
	}
	kept := make(map[seq.Offset]time.Duration, most)
	for _, o := range has() {
		if at, ok := p.at[o]; ok {
			kept[o] = at
		}
	}
	p.at = kept
}

// Len returns how many are kept.
func (p *Published) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.at)
}
