package topic

import (
	"errors"
	"time"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/trace"
)

// FinTimeout bounds how long a FIN of an ordered channel waits for the in-sync
// replicas to store it, as while there are fewer than the topic asks for.
const FinTimeout = 5 * time.Second

// ErrFinNotStored is why a FIN of an ordered channel failed that was taken: not enough
// in-sync replicas stored it within FinTimeout. The message is delivered again, here or,
// if one of them has stored it and leads next, not at all.
var ErrFinNotStored = fate.Mark(errors.New("not confirmed by enough in-sync replicas in time: the message will be redelivered"), fate.Uncertain)

// finishes are FINs that this node notes and the others are told of together.
type finishes struct {
	list []*channel.Finishing[*Consumer]
	data []byte
}

// nextLocked returns the FINs of a channel, whose lock is held, that others are to be told of now.
func nextLocked(c *Channel) finishes {
	f := finishes{list: c.finishing.Next()}
	floor := c.state.Floor()
	for _, x := range f.list { // one that is counted already may be below the floor
		f.data = advance.Change{Channel: c.name, Version: c.version, Floor: min(floor, x.Offset), Offset: x.Offset, Moves: c.moves}.Append(f.data)
	}
	return f
}

// tell tells the other replicas, where there are any.
func (f finishes) tell(c *Channel) {
	switch {
	case len(f.list) == 0:
	case c.p.sharing.Shared():
		c.p.sharing.Advance(sharing.Change{Data: f.data, Done: func(err error) { f.told(c, err) }})
	default:
		f.told(c, nil)
	}
}

// told ends FINs that others had to hear of, and that this node has to note: where it
// cannot, the messages are delivered again. An error says that the term is over: nothing
// is delivered here any more. What was given up meanwhile is not ended twice.
func (f finishes) told(c *Channel, err error) {
	if err != nil {
		c.p.over.Store(true)
	} else {
		err = c.p.note(f.data)
	}
	now := time.Now()
	c.mu.Lock()
	waited := c.finishing.Settle(f.list)
	for _, x := range waited {
		if err != nil {
			c.state.Release(x.Offset)
			continue
		}
		c.state.Confirm(x.Offset)
		x.By.finished.Add(1)
		x.By.processed(x.Offset, now)
	}
	if c.state.Held() == 0 {
		c.movers.release()
	}
	next := nextLocked(c)
	c.mu.Unlock()
	if err == nil {
		for _, x := range waited {
			traced(x.By, trace.Finished, x.Offset, c.p.o.Now())
		}
	}
	c.p.dirty.mark()
	c.p.stir()
	c.wakeFor(len(waited))
	next.tell(c)
}

// processed notes how long a message took that is finished.
func (k *Consumer) processed(o seq.Offset, now time.Time) {
	if took, attempts, ok := k.probe.End(o, now); ok {
		k.ch.p.o.Observer.ObserveFinish(took, attempts)
	}
	if k.ch.times == nil {
		return
	}
	if at, ok := k.published.Take(o); ok {
		k.ch.times.Ended(at, now)
	}
}
