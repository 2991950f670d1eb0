package client

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Delays between attempts of one publish.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// retries holds calls without a connection: those that found none, and those whose attempt failed
// and may be repeated. While there are any, one goroutine sends them in the order of their
// arrival.
type retries struct {
	client *Client
	wake   chan struct{}

	mu      sync.Mutex // guards the fields below
	waiting []*call
	running bool
}

// add takes ownership of a call.
func (r *retries) add(c *call) {
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	start := !r.running
	r.running = true
	r.mu.Unlock()
	if start && !r.client.start(r.run) {
		r.run() // the client is closed: every call ends
	}
	wake(r.wake)
}

// run sends due calls until none is left.
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

// due removes and returns the first due call. If there is none, it returns the time of the next
// one; if no call is left, it ends the run.
func (r *retries) due(now time.Time) (*call, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for i, c := range r.waiting {
		if !c.notUntil.After(now) {
			if i == 0 { // the usual case, however many calls wait
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

// endAll ends the waiting calls, because the client is closed.
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

// backoff returns the delay after a number of failures. The jitter is from 0 to 1.
func backoff(failures int, jitter float64) time.Duration {
	if failures <= 1 {
		return 0 // a node was lost; another one accepts the call
	}
	d := firstRetry << min(failures-2, 10)
	d = min(d, lastRetry)
	return d - time.Duration(jitter*float64(d)/2)
}

// schedule sets the time of the next attempt after err. It returns false if the deadline has
// passed.
func (r *retries) schedule(c *call, err error, now time.Time) bool {
	if c.deadline.IsZero() {
		c.deadline = now.Add(r.client.cfg.publishTimeout)
	}
	c.last = err
	c.failures++
	c.notUntil = now.Add(backoff(c.failures, rand.Float64()))
	return c.notUntil.Before(c.deadline) && context.Cause(r.client.ctx) == nil
}
