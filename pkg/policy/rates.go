package policy

import (
	"sync"
	"time"
)

// Limit limits the rate of a channel over all partitions that share it. Its methods are safe
// for concurrent use.
type Limit struct {
	mu        sync.Mutex // guards what follows
	bucket    bucket
	refused   time.Time     // when a consumer got less than it wanted; zero: none has since then
	due       time.Duration // from then until the bucket had a message
	throttled time.Duration
}

// SetRate changes the rate, in messages a second.
func (l *Limit) SetRate(perSecond float64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.SetRate(perSecond, now)
}

// Reserve is Bucket.Reserve.
func (l *Limit) Reserve(n int, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refused.IsZero() {
		l.throttled += max(0, min(now.Sub(l.refused), l.due))
		l.refused = time.Time{}
	}
	got := l.bucket.Reserve(n, now)
	if got < n {
		l.refused, l.due = now, l.bucket.untilOne()
	}
	return got
}

// Throttled returns how long consumers waited for the rate. A wait counts when it is
// over.
func (l *Limit) Throttled() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.throttled
}

// Return is Bucket.Return.
func (l *Limit) Return(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket.Return(n)
	if n > 0 {
		l.refused = time.Time{} // there was more to take than messages
	}
}

// Rates are the limits of a topic's channels on one node. The leaders of a channel's
// partitions share its rate in proportion to the number of partitions that they lead. The
// zero value is ready for use. Its methods may be called by many goroutines.
type Rates struct {
	mu    sync.Mutex // guards what follows
	share float64    // of the partitions that this node leads
	all   map[string]*rated
}

type rated struct {
	limit   *Limit
	version uint64 // of the channel
	rate    int
}

// Share sets how many of a topic's partitions this node leads.
func (r *Rates) Share(led, partitions int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share = float64(max(led, 1)) / float64(max(partitions, led, 1))
	for _, x := range r.all {
		x.limit.SetRate(float64(x.rate)*r.share, now)
	}
}

// Throttled returns how long consumers waited for the limit of a channel.
func (r *Rates) Throttled(channel string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.all[channel]; x != nil {
		return x.limit.Throttled()
	}
	return 0
}

// Forget drops the limit of a deleted channel, unless it exists again: its partitions share one limit. A channel
// that is created after exists was called gets another one.
func (r *Rates) Forget(channel string, exists func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !exists() {
		delete(r.all, channel)
	}
}

// Of returns the limit of a channel with this rate, in messages per second over all
// nodes. Rate 0 means no limit: the result is nil. All partitions share the limit, although one
// learns of a rate before another learns that there was none. A later version of the channel,
// created again after a deletion, gets another limit.
func (r *Rates) Of(channel string, version uint64, rate int, now time.Time) *Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rate == 0 {
		return nil
	}
	x := r.all[channel]
	if x == nil || x.version < version {
		x = &rated{limit: &Limit{}, version: version}
		if r.all == nil {
			r.all = map[string]*rated{}
		}
		r.all[channel] = x
	}
	if r.share == 0 {
		r.share = 1
	}
	x.rate = rate
	x.limit.SetRate(float64(rate)*r.share, now)
	return x.limit
}
