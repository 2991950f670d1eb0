package topic

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// processing is how long the messages of a channel took from their publish to their
// Finish, of late. Its methods may be called by many goroutines; nil keeps nothing.
type processing struct {
	base time.Time // times are kept since then

	mu     sync.Mutex // guards window
	window *latency.Window
}

// newProcessing returns a processing of a window; nil for none.
func newProcessing(window time.Duration, now time.Time) *processing {
	if window <= 0 {
		return nil
	}
	return &processing{base: now, window: latency.NewWindow(window)}
}

// ended notes that a message which was published at a time, since the base, is finished.
func (p *processing) ended(published time.Duration, now time.Time) {
	at := now.Sub(p.base)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.Record(max(int64(at), 0), at-published)
}

// histogram returns what is kept; nil where nothing is.
func (p *processing) histogram(now time.Time) *latency.Histogram {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := new(latency.Histogram)
	p.window.AddTo(h, max(int64(now.Sub(p.base)), 0))
	return h
}

// leastPublished is how many publishes of messages are kept in any case.
const leastPublished = 1024

// published is when the messages that a consumer was given were published, since the base
// of a processing. Its methods may be called by many goroutines.
type published struct {
	mu sync.Mutex // guards at
	at map[seq.Offset]time.Duration
}

func (p *published) note(o seq.Offset, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil {
		p.at = map[seq.Offset]time.Duration{}
	}
	p.at[o] = at
}

// take returns when a message was published, and forgets it.
func (p *published) take(o seq.Offset) (at time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok = p.at[o]
	delete(p.at, o)
	return at, ok
}

// trim forgets the messages that the consumer does not have, if these may be the most:
// they timed out, or were taken from it.
func (p *published) trim(has channel.Taken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.at) < leastPublished+2*has.Len() {
		return
	}
	kept := make(map[seq.Offset]time.Duration, has.Len())
	for _, o := range has.Offsets() {
		if at, ok := p.at[o]; ok {
			kept[o] = at
		}
	}
	p.at = kept
}
