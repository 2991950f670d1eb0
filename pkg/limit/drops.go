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
// is safe for concurrent use; a nil one has no limit.
type Drops struct {
	rate int // bytes a second

	mu   sync.Mutex // guards used
	used time.Time  // until when the rate is used up
}

// NewDrops returns Drops of so many bytes a second.
func NewDrops(rate int) *Drops { return &Drops{rate: rate} }

// Wait is called with the number of bytes that were read and dropped, and waits until more
// may be. It returns false at once if that is not before the deadline.
func (d *Drops) Wait(n int, deadline time.Time) bool {
	if d == nil {
		return true
	}
	now := time.Now()
	until := d.count(n, now)
	if !until.Before(deadline) {
		return false
	}
	time.Sleep(until.Sub(now))
	return true
}

// count returns until when the rate is used up by n bytes more.
func (d *Drops) count(n int, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used.Before(now) {
		d.used = now
	}
	d.used = d.used.Add(time.Duration(n) * time.Second / time.Duration(d.rate))
	return d.used
}
