package processing

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// SpinRate is the number of requeues per second from which on a message is reported as spinning.
const SpinRate = 100

const (
	spinWindow = time.Second
	maxSpins   = 10   // reported
	maxCounted = 1024 // per window
)

// Spin is a message in a requeue loop: its consumers requeue it immediately.
type Spin struct {
	Offset    seq.Offset
	PerSecond float64 // requeues, in the last window
}

// Spins finds the spinning messages of a channel, by counting requeues in windows of a second. The
// zero value is ready for use. Its methods are safe for concurrent use.
type Spins struct {
	mu     sync.Mutex // guards what follows
	began  time.Time  // of the window
	counts map[seq.Offset]int
	found  []Spin // in the previous window; replaced, never changed
}

// Requeued records a requeue and the number of deliveries.
func (x *Spins) Requeued(o seq.Offset, attempts uint16, now time.Time) {
	if attempts < SpinRate {
		return // a spinning message soon has more attempts: most messages need no count
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turnLocked(now)
	if _, counted := x.counts[o]; !counted && len(x.counts) >= maxCounted {
		return
	}
	if x.counts == nil {
		x.counts = map[seq.Offset]int{}
	}
	x.counts[o]++
}

// At returns the spinning messages, the fastest first. The result must not be changed.
func (x *Spins) At(now time.Time) []Spin {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turnLocked(now)
	return x.found
}

// turnLocked ends the window if it has expired. A window that is ended too late is discarded.
func (x *Spins) turnLocked(now time.Time) {
	took := now.Sub(x.began)
	if took < spinWindow {
		return
	}
	x.found = nil
	if took < 2*spinWindow {
		for o, n := range x.counts {
			if rate := float64(n) / took.Seconds(); rate > SpinRate {
				x.found = append(x.found, Spin{o, rate})
			}
		}
		slices.SortFunc(x.found, func(a, b Spin) int {
			return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Offset, b.Offset))
		})
		x.found = x.found[:min(len(x.found), maxSpins)]
	}
	x.began = now
	clear(x.counts)
}
