package client

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Waits between attempts of one publish.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// retries has the calls that have no connection: those that found none, and those whose
// attempt failed and that another may carry out. One goroutine looks after them while there
// are some, in the order in which they came.
type retries struct {
	client *Client
	wake   chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []*call
	running bool
}

// add takes a call over.
func (r *retries) add(c *call) {
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	start := !r.running
	r.running = true
	r.mu.Unlock()
	if start && !r.client.start(r.run) {
		r.run() // the client is closed: each is told
	}
	wake(r.wake)
}

// run sends what is due until nothing is left.
func (r *retries) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c, next := r.due(time.Now())
		switch {
		case c != nil:
			r.client.attempt(c)
		case next.IsZero():
			return
		default:
			timer.Reset(time.Until(next))
			select {
			case <-timer.C:
			case <-r.wake:
			case <-r.client.ctx.Done():
				r.endAll()
			}
		}
	}
}

// due takes the first call whose time has come. Where there is none it says when to look
// again, and where nothing is left, it ends the run.
func (r *retries) due(now time.Time) (*call, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for i, c := range r.waiting {
		if !c.notUntil.After(now) {
			if i == 0 { // mostly, however many there are
				r.waiting[0] = nil
				r.waiting = r.waiting[1:]
			} else {
				r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			}
			return c, now
		}
		if next.IsZero() || c.notUntil.Before(next) {
			next = c.notUntil
		}
	}
	r.running = len(r.waiting) > 0
	return nil, next
}

// endAll ends what waits, since the client is closed.
func (r *retries) endAll() {
	r.mu.Lock()
	all := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, c := range all {
		r.client.finish(c, c.fail(orClosed(c.last), true))
	}
}

func orClosed(err error) error {
	if err == nil {
		return ErrClosed
	}
	return err
}

// backoff returns how long to wait after so many failures. The jitter is from 0 to 1.
func backoff(failures int, jitter float64) time.Duration {
	if failures <= 1 {
		return 0 // a node was lost, and another takes it
	}
	d := firstRetry << min(failures-2, 10)
	d = min(d, lastRetry)
	return d - time.Duration(jitter*float64(d)/2)
}

// schedule says when a call is tried again after err; false: its time is over.
func (r *retries) schedule(c *call, err error, now time.Time) bool {
	if c.deadline.IsZero() {
		c.deadline = now.Add(r.client.cfg.publishTimeout)
	}
	c.last = err
	c.failures++
	c.notUntil = now.Add(backoff(c.failures, rand.Float64()))
	return c.notUntil.Before(c.deadline) && context.Cause(r.client.ctx) == nil
}
