package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Look calls f with a view of the channel's state, which f must not retain. The channel is locked
// meanwhile.
func (c *Channel) Look(f func(channel.View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.state.View())
}

// Operator is a view of a channel: what operators see and change of it.
type Operator struct{ c *Channel }

// Operator returns the view.
func (c *Channel) Operator() Operator { return Operator{c} }

// moveTimeout bounds how long a move waits for other replicas.
const moveTimeout = 5 * time.Second

// errNotQuiescent is returned by Seek and Empty when other replicas do not store a finished message in time.
var errNotQuiescent = fate.Refuse("waiting for in-sync replicas to store finished messages")

// Move applies a change that may move the channel back. It waits for finishes that are being
// replicated, which would move the channel forward again after it. When it returns, that is on this
// node's disk; Partition.Flush waits for the other replicas.
func (x Operator) Move(f func(*channel.State)) error {
	c := x.c
	if err := x.quiesce(); err != nil {
		c.change(func(*channel.State) { c.movers.n-- })
		return err
	}
	moves := c.p.keeper.NextMove()
	c.change(func(s *channel.State) {
		f(s)
		c.recorder.Restart() // what is known of before the move is not continued
		c.moves = moves
		c.movers.n--
	})
	return c.p.keeper.Store()
}

// quiesce waits until no message is held, and prevents deliveries until its caller, now a mover, is done.
func (x Operator) quiesce() error {
	c := x.c
	limit := time.NewTimer(moveTimeout)
	defer limit.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.movers.n++
	for c.state.Holds().Len() > 0 && c.closed == nil {
		settled := c.movers.wait()
		c.mu.Unlock()
		var err error
		select {
		case <-settled:
		case <-limit.C:
			err = errNotQuiescent
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Change applies a change that finishes messages or makes them ready, consistently with changes
// being replicated. It is on this node's disk when Change returns.
func (x Operator) Change(f func(*channel.State)) error {
	x.c.change(f)
	return x.c.p.keeper.Store()
}

// Finish finishes a message, whatever its state, and returns the previous state: see
// channel.Operator.Finish.
func (x Operator) Finish(o seq.Offset) (was channel.MessageState, err error) {
	c := x.c
	if err := x.Move(func(s *channel.State) { was = s.Operator().Finish(o) }); err != nil {
		return was, err
	}
	if tr := c.p.trace.Load(); tr != nil && was != channel.Finished {
		tr.Step(&trace.Step{What: trace.Finished, Offset: o, Channel: c.name, Note: "by an operator", At: c.p.o.Now()})
	}
	return was, nil
}

// restOf returns how long a taken message is still deferred by its publisher. A message that was
// delivered before, or that an operator advanced, is not deferred.
func restOf(c *Channel, b commitlog.Batch, t channel.Delivery, delay time.Duration, now time.Time) time.Duration {
	rest := c.p.rest(b, t.Offset, delay, now)
	if rest > 0 && (t.Attempts > 1 || advanced(c, t.Offset)) {
		return 0
	}
	return rest
}

func advanced(c *Channel, o seq.Offset) (is bool) {
	c.Look(func(v channel.View) { is = v.Deferrals().Advanced(o) })
	return is
}
