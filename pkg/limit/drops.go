package limit

import (
	"sync"
	"time"
)

// DropRate is the rate, in bytes per second, at which a node reads data from clients only to drop
// it.
const DropRate = 32 << 20

// Drops limits the rate of reading data that is dropped: the rest of a refused body, which is read
// so that the client receives the response instead of a connection reset. Reading it costs as much
// as reading data that is stored, so the rate is limited for all clients together. Its methods are
// safe for concurrent use; a nil Drops has no limit.
type Drops struct {
	rate int // bytes per second

	mu   sync.Mutex // guards used
	used time.Time  // until when the rate is used up
}

// NewDrops returns Drops with a rate in bytes per second.
func NewDrops(rate int) *Drops { return &Drops{rate: rate} }

// Wait is called with the number of bytes that were read and dropped, and waits until more may be
// read. It returns false at once if that is not before the deadline.
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

// count returns until when the rate is used up after n more bytes.
func (d *Drops) count(n int, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used.Before(now) {
		d.used = now
	}
	d.used = d.used.Add(time.Duration(n) * time.Second / time.Duration(d.rate))
	return d.used
}
