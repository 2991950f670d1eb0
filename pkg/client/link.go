package client

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// link publishes to one node over a connection that is opened when needed, and reopened after a
// failure with a delay.
type link struct {
	address string
	client  *Client
	current atomic.Pointer[conn] // nil: not opened yet

	mu       sync.Mutex // guards the fields below
	failures int        // consecutive failures
	notUntil time.Time  // earliest time of the next attempt to connect
	err      error      // of the last attempt
	dialing  chan struct{}
}

// live returns the connection if it is open.
func (l *link) live() *conn {
	if cn := l.current.Load(); cn != nil && cn.alive() {
		return cn
	}
	return nil
}

// connect returns the connection, and opens it if necessary. During the delay after a failure it
// returns the error of the last attempt.
func (l *link) connect(ctx context.Context) (*conn, error) {
	for {
		if cn := l.live(); cn != nil {
			return cn, nil
		}
		l.mu.Lock()
		if other := l.dialing; other != nil {
			l.mu.Unlock()
			select {
			case <-other:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if time.Now().Before(l.notUntil) {
			err := l.err
			l.mu.Unlock()
			return nil, err
		}
		mine := make(chan struct{})
		l.dialing = mine
		l.mu.Unlock()
		cn, err := l.dial(ctx)
		l.mu.Lock()
		l.dialing = nil
		l.mu.Unlock()
		close(mine)
		return cn, err
	}
}

// kick opens the connection in the background, if the delay has passed.
func (l *link) kick() {
	l.mu.Lock()
	due := l.dialing == nil && !time.Now().Before(l.notUntil)
	l.mu.Unlock()
	if due {
		l.client.start(func() { _, _ = l.connect(l.client.ctx) }) // the next caller sees the result
	}
}

// dial opens a connection and runs it until it ends.
func (l *link) dial(ctx context.Context) (*conn, error) {
	cn, err := open(ctx, l.client.cfg, l.address, wanted{}, l.client)
	if err != nil {
		l.failed(err)
		return nil, err
	}
	if !l.client.start(func() { l.run(cn) }) {
		cn.end(ErrClosed)
		return nil, ErrClosed
	}
	l.adopt(cn)
	return cn, nil
}

// adopt makes a running connection the current one. If the client was closed meanwhile, it may not
// have seen the connection.
func (l *link) adopt(cn *conn) {
	l.current.Store(cn)
	if l.client.ctx.Err() != nil {
		cn.end(ErrClosed)
	}
}

func (l *link) run(cn *conn) {
	l.client.connected(l.address)
	began := time.Now()
	err := cn.run()
	if time.Since(began) >= l.client.cfg.maxReconnect {
		l.succeeded() // connecting did not fail
	}
	l.failed(fmt.Errorf("connection to %s: %w", l.address, err))
	l.client.disconnected(l.address, err)
}

// failed delays the next attempt to connect.
func (l *link) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.err = err
	l.notUntil = time.Now().Add(pause(l.client.cfg, l.failures, rand.Float64()))
}

func (l *link) succeeded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = 0
}

// pause returns the delay after a number of consecutive failures. The jitter is from 0 to 1.
func pause(cfg *config, failures int, jitter float64) time.Duration {
	d := cfg.minReconnect
	for range min(failures-1, bits.UintSize) {
		d = doubled(d, cfg.maxReconnect)
	}
	return d - time.Duration(jitter*float64(d)/2)
}

// notReachable returns the error if none of several nodes could be connected to.
func notReachable(errs []error) error {
	if len(errs) == 0 {
		return fmt.Errorf("%w: no known node", ErrUnreachable)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(errs...))
}
