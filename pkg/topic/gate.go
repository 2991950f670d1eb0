package topic

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
)

// Gate controls whether messages of a partition may be delivered and answers accepted.
type Gate struct {
	list      atomic.Pointer[[]*Channel]
	leased    func(time.Time) bool // nil: always
	begun     atomic.Bool          // leased was true once
	suspended atomic.Bool          // nothing is delivered
	over      atomic.Bool          // nothing is delivered or answered any longer
	left      chan struct{}        // a message left flight while suspended; holds one
}

func (g *Gate) channels() []*Channel { return *g.list.Load() }

// Leased reports whether messages may be delivered and answered at now. Take checks it with its
// time argument; check it again before writing taken messages to a socket, because the process
// may have been paused in between.
func (g *Gate) Leased(now time.Time) bool {
	ok := !g.over.Load() && (g.leased == nil || g.leased(now))
	if ok && !g.begun.Load() {
		g.begun.Store(true)
	}
	return ok
}

// Suspend stops deliveries. Messages in flight stay so, and are answered or time out; publishing continues.
func (g *Gate) Suspend() { g.suspended.Store(true) }

// Resume ends a Suspend and a Freeze.
func (g *Gate) Resume() {
	for _, c := range g.channels() {
		c.mu.Lock()
		c.frozen = false
		c.mu.Unlock()
	}
	g.suspended.Store(false)
	g.Wake()
}

// Wake wakes every consumer. Call it when Leased becomes true.
func (g *Gate) Wake() {
	for _, c := range g.channels() {
		c.wakeConsumers()
	}
}

// Quiesce suspends deliveries and returns once no message is in flight. After an error, which is
// ctx's, deliveries are still suspended.
func (g *Gate) Quiesce(ctx context.Context) error {
	g.Suspend()
	for {
		n := 0
		for _, c := range g.channels() {
			n += int(c.Stats().InFlight)
		}
		if n == 0 {
			g.messageLeft() // for another waiter
			return nil
		}
		select {
		case <-g.left:
		case <-ctx.Done():
			return fmt.Errorf("%d messages still in flight: %w", n, context.Cause(ctx))
		}
	}
}

// messageLeft signals that a message has left flight.
func (g *Gate) messageLeft() {
	if !g.suspended.Load() {
		return
	}
	signal.Poke(g.left)
}

// Disconnect disconnects all consumers for a reason. Their messages in flight are ready again as they leave.
func (g *Gate) Disconnect(reason error) {
	for _, c := range g.channels() {
		c.Disconnect(reason)
	}
}
