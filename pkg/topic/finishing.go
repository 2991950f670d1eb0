package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/trace"
)

// FinTimeout bounds how long a FIN of an ordered channel waits for the in-sync
// replicas to store it, as while there are fewer than the topic asks for.
const FinTimeout = 5 * time.Second

// errFinNotStored reports that not enough in-sync replicas stored the FIN of an ordered channel within
// FinTimeout. The message is redelivered, unless a replica that has stored the FIN leads next.
var errFinNotStored error = failure.FinNotStored

// finishes are FINs that this node notes and the others are told of together.
type finishes struct {
	list []*channel.Finishing[*Consumer]
	data []byte
}

// nextLocked returns the FINs of a channel, whose lock is held, that others are to be told of now.
func nextLocked(c *Channel) finishes {
	f := finishes{list: c.finishing.Next()}
	f.data = changesLocked(c, f.list)
	return f
}

// changesLocked returns what is told and noted of FINs.
func changesLocked(c *Channel, list []*channel.Finishing[*Consumer]) (data []byte) {
	floor := c.state.Floor()
	for _, x := range list { // one that is counted already may be below the floor
		data = advance.Change{Channel: c.name, Version: c.version, Floor: min(floor, x.Offset), Offset: x.Offset, Moves: c.moves}.Append(data)
	}
	return data
}

// tell tells the other replicas, where there are any, and then of those that came meanwhile.
func (f finishes) tell(c *Channel) {
	for next := f; len(next.list) > 0; {
		if c.p.sharing.Shared() {
			told := next
			c.p.sharing.Advance(sharing.Change{Data: told.data, Done: func(err error) { told.told(c, err).tell(c) }})
			return
		}
		next = next.told(c, nil)
	}
}

// told ends FINs that others had to hear of, and that this node has to note: where it
// cannot, the messages are delivered again. An error says that the term is over: nothing
// is delivered here any more. What was given up meanwhile is neither noted nor ended twice. It
// returns what others are to be told of next.
func (f finishes) told(c *Channel, err error) (next finishes) {
	if err != nil {
		c.p.over.Store(true)
	}
	c.mu.Lock()
	waited, data := c.finishing.Confirm(f.list), f.data
	if len(waited) < len(f.list) {
		data = changesLocked(c, waited)
	}
	c.mu.Unlock()
	if err == nil && len(waited) > 0 {
		err = c.p.appendChange(data)
	}
	now := time.Now()
	c.mu.Lock()
	for _, x := range waited {
		if err != nil {
			c.state.Release(x.Offset)
			continue
		}
		c.state.Confirm(x.Offset)
		if x.By != nil {
			x.By.finished.Add(1)
			x.By.processed(x.Offset, now)
		}
	}
	if c.state.Held() == 0 {
		c.movers.release()
	}
	c.finishing.Done()
	next = nextLocked(c)
	strict := channel.Order(c.state) == policy.Strict
	c.mu.Unlock()
	if err == nil {
		for _, x := range waited {
			if x.By != nil {
				traced(x.By, trace.Finished, x.Offset, c.p.o.Now())
			}
		}
	}
	c.p.dirty.mark()
	c.p.stir()
	if strict {
		c.tellFor(1, serve)
	} else {
		c.wakeFor(len(waited))
	}
	return next
}

// processed notes how long a message took that is finished.
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
