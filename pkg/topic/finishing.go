package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/trace"
)

// FinTimeout bounds how long a FIN of an ordered channel waits for the in-sync replicas to store
// it, for example while there are fewer than the topic requires.
const FinTimeout = 5 * time.Second

// finishes are FINs that are recorded and sent to the other replicas together.
type finishes struct {
	list []*pendingFinish
	data []byte
}

// nextLocked returns the FINs of a channel, whose lock is held, that must be sent to the other replicas now.
func nextLocked(c *Channel) finishes {
	f := finishes{list: c.finishing.next()}
	f.data = changesLocked(c, f.list)
	return f
}

// changesLocked returns the encoded changes of FINs.
func changesLocked(c *Channel, list []*pendingFinish) (data []byte) {
	floor := c.state.View().Floor()
	for _, x := range list { // a FIN that counts already may be below the floor
		data = advance.Change{Channel: c.name, Version: c.version, Floor: min(floor, x.offset), Offset: x.offset, Moves: c.moves}.Append(data)
	}
	return data
}

// send sends the FINs to the other replicas, if there are any, and then those that arrived meanwhile.
func (f finishes) send(c *Channel) {
	for next := f; len(next.list) > 0; {
		if c.p.keeper.Shared() {
			sent := next
			c.p.keeper.Advance(sharing.Change{Data: sent.data, Done: func(err error) { sent.replicated(c, err).send(c) }})
			return
		}
		next = next.replicated(c, nil)
	}
}

// replicated completes FINs that the other replicas have stored, and records them on this node. If that
// fails, the messages are delivered again. An error means that the term is over: nothing more is
// delivered here. FINs given up meanwhile are neither recorded nor completed twice. It returns the
// FINs to be sent next.
func (f finishes) replicated(c *Channel, err error) (next finishes) {
	if err != nil {
		c.p.Gate.over.Store(true)
	}
	c.mu.Lock()
	waited, data := c.finishing.confirm(f.list), f.data
	if len(waited) < len(f.list) {
		data = changesLocked(c, waited)
	}
	c.mu.Unlock()
	if err == nil && len(waited) > 0 {
		err = c.p.keeper.Append(data)
	}
	now := time.Now()
	c.mu.Lock()
	for _, x := range waited {
		if err != nil {
			c.state.Holds().Release(x.offset)
			continue
		}
		c.state.Holds().Confirm(x.offset)
		if x.by != nil {
			x.by.finished.Add(1)
			x.by.processed(x.offset, now)
		}
	}
	if c.state.Holds().Len() == 0 {
		c.movers.release()
	}
	c.finishing.done()
	next = nextLocked(c)
	strict := c.state.View().Order() == policy.Strict
	c.mu.Unlock()
	if err == nil {
		for _, x := range waited {
			if x.by != nil {
				traced(x.by, trace.Finished, x.offset, c.p.o.Now())
			}
		}
	}
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	if strict {
		c.notifyWaiting(1, serve)
	} else {
		c.wakeFor(len(waited))
	}
	return next
}

// processed records how long a finished message took.
func (k *Consumer) processed(o seq.Offset, now time.Time) {
	if took, attempts, ok := k.probe.End(o, now); ok {
		k.ch.p.o.Observer.ObserveFinish(took, attempts)
	}
	if k.ch.times == nil {
		return
	}
	if at, ok := k.published.Pop(o); ok {
		k.ch.times.Ended(at, now)
	}
}
