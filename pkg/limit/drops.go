package limit

import (
	"sync"
	"time"
)

// DropRate is how many bytes a second a node reads from its clients only to drop them.
const DropRate = 32 << 20

// Drops paces what is read from clients only to be dropped: the rest of what was refused,
// which is read so that the client sees the answer and not a reset. It costs the node as
// much to read as what it stores, so that all such reads together are slow. Its methods
// may be called by many goroutines; a nil one has no limit.
type Drops struct {
	rate int // bytes a second

	mu   sync.Mutex // guards used
	used time.Time  // until when the rate is used up
}

// NewDrops returns Drops of so many bytes a second.
func NewDrops(rate int) *Drops { return &Drops{rate: rate} }

// Wait waits until n more bytes may be read to be dropped. It returns false at once if that
// is not before the deadline.
func (d *Drops) Wait(n int, deadline time.Time) bool {
	if d == nil {
		return true
	}
	now := time.Now()
	at, ok := d.reserve(n, now, deadline)
	if ok {
		time.Sleep(at.Sub(now))
	}
	return ok
}

// reserve returns when n more bytes may be read, if that is before the deadline.
func (d *Drops) reserve(n int, now, deadline time.Time) (at time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at = now
	if d.used.After(now) {
		at = d.used
	}
	if !at.Before(deadline) {
		return at, false
	}
	d.used = at.Add(time.Duration(n) * time.Second / time.Duration(d.rate))
	return at, true
}
