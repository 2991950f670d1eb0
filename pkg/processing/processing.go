// Package processing records how consumers process the messages of a channel: the recent time from
// publish to finish, and messages that they requeue in a loop.
package processing

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Times records how long the recent messages of a channel took from publish to
// finish. Its methods are safe for concurrent use; nil records nothing.
type Times struct {
	Base time.Time // times are relative to it

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

// Ended records the finish of a message that was published at a time, relative to Base.
func (p *Times) Ended(published time.Duration, now time.Time) {
	at := now.Sub(p.Base)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.Record(max(int64(at), 0), at-published)
}

// Histogram returns the recorded times; nil if there are none.
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

// Least is the number of publish times that are kept in any case.
const Least = 1024

// Published holds the publish times of the messages delivered to a consumer, relative to
// the Base of a Times. Its methods are safe for concurrent use.
type Published struct {
	mu sync.Mutex // guards at
	at map[seq.Offset]time.Duration
}

// Add records when a message was published.
func (p *Published) Add(o seq.Offset, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[seq.Offset]time.Duration{}
	}
	p.at[o] = at
}

// Pop returns when a message was published, and removes it.
func (p *Published) Pop(o seq.Offset) (at time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok = p.at[o]
	delete(p.at, o)
	return at, ok
}

// Trim removes the messages that the consumer no longer has, because they timed out or
// were taken from it, if these may be the majority.
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

// Len returns the number of publish times.
func (p *Published) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.at)
}
